package mcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/mcp/netguard"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/workflows/turn"
)

// Transport is how the worker reaches a server.
type Transport string

// The transports.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http" // streamable HTTP
	TransportSSE   Transport = "sse"  // HTTP with SSE, the predecessor of streamable HTTP
)

// LocalID is the ID of the catalogue of this program's own functions, and is refused for servers.
const LocalID = "local"

// Server is one MCP server as its operator configured it.
type Server struct {
	// ID names the server in tool IDs (mcp/<ID>/<tool>): letters, digits, dots, underscores and dashes, at most 48,
	// beginning with a letter or digit.
	ID        string
	Transport Transport // empty: stdio if Command is set, else http

	// Command runs without a shell. A name without a slash is looked up in the PATH that Options.Environ returns.
	Command  string
	Args     []string
	Dir      string
	User     string            // account of the process, by name or number; empty: this program's. Only root may set it
	Env      map[string]string // given to the process unchanged
	EnvAllow []string          // names of variables that the process inherits; an unset variable is an error

	URL     string            // https; http on loopback and in Networks
	Headers map[string]string // sent with every request to URL's host, and to no other host

	// Networks are the private networks, in CIDR notation, in which URL and OAuth.TokenURL may be. Without them the
	// worker dials only addresses of the public internet, and loopback if the URL itself names it.
	Networks []string
	OAuth    OAuth // for HTTP and SSE
	Login    Login // for HTTP; replaces OAuth if the program brings its own login

	Required       bool          // a turn refuses to run without it
	ConnectTimeout time.Duration // for start, handshake and listing; 0 means 30 s
	CallTimeout    time.Duration // for a call if neither the request nor the tool sets one; 0 means 60 s
	TotalTimeout   time.Duration // for a call that reports progress; 0: progress renews nothing
	IdleTimeout    time.Duration // ends a connection that has been idle this long; 0 keeps it
	MaxConcurrent  int           // calls in flight; 0 means 64
	// CatalogueGrace is how long turns may still begin with the tools of a server that has become unavailable; 0 means
	// 1 min, or 10 min if the server is Required.
	CatalogueGrace time.Duration

	Allow []string // globs on tool names (path.Match); empty allows all
	Deny  []string // globs; take precedence over Allow
	Tools map[string]tool.Settings
	// Trust accepts the server's annotations: a read-only or idempotent tool is repeatable, and a read-only tool is low
	// risk.
	Trust bool
	// TrustChanges accepts changed tools without the operator's approval.
	TrustChanges bool
	// SessionAffinity means that the server remembers state between the calls of a turn.
	SessionAffinity bool
	// Queue is the task queue for the server's calls: see turn.Descriptor.Queue.
	Queue string
	// ElicitationTimeout is how long a server of an older protocol version may hold a call open for the responses to its
	// elicitations, in total; 0: it may not send elicitations.
	ElicitationTimeout time.Duration
	// Resources and Prompts offer the server's resources and prompts as tools.
	Resources, Prompts bool
	// TaintsAll makes results taint the session even if the server is trusted (policy.taint = "strict").
	TaintsAll bool
}

// OAuth holds client credentials (RFC 6749, 4.4); the zero OAuth means none.
type OAuth struct {
	TokenURL, ClientID, ClientSecret string
	Scopes                           []string
}

// Options configures a Host. Zero values mean the defaults.
type Options struct {
	Servers []Server
	// Environ looks up a variable of this program's environment. Nil means an empty environment.
	Environ func(name string) (string, bool)

	MaxFrameBytes   int // one protocol message; 16 MiB
	MaxResultBytes  int // of a result as the model sees it; 64 KiB
	MaxFullBytes    int // of a result as it is kept; 16 MiB
	StderrTailBytes int // 8 KiB
	MaxTools        int // of one server; 512
	MaxPages        int // of one tools/list; 64
	// MaxCalls bounds the calls that occupy the worker: all servers together may use MaxCalls, one server two thirds of
	// it; 75. A call beyond that is not sent, and its caller retries it.
	MaxCalls int

	BackoffMin time.Duration // pause after the first failed connect; 100 ms
	BackoffMax time.Duration // 60 s
	StopGrace  time.Duration // between closing stdin, TERM and KILL; 500 ms
	// RefreshEvery is how often a connected server is listed again while its catalogue is followed; 60 s.
	RefreshEvery time.Duration
	// CancelGrace is how long a server may take to respond to a cancelled call before its process is replaced; 1 s.
	CancelGrace time.Duration

	// Secrets collects the servers' configured secrets, and redacts what servers say. Nil means a new redactor.
	Secrets *redact.Redactor

	Logger *slog.Logger
	// OnProcess is called with the start and the end of each server's process. It must not block. It may be nil.
	OnProcess func(server string, e turn.ProcessEvent)
}

// Defaults that this program's own functions share with servers.
const (
	DefaultResultBytes = 64 << 10
	DefaultGrace       = time.Minute
)

// withDefaults returns the options with every unset field replaced by its default.
func (o Options) withDefaults() Options {
	setDefault(&o.MaxFrameBytes, 16<<20)
	setDefault(&o.MaxResultBytes, DefaultResultBytes)
	setDefault(&o.MaxFullBytes, 16<<20)
	setDefault(&o.StderrTailBytes, 8<<10)
	setDefault(&o.MaxTools, 512)
	setDefault(&o.MaxPages, 64)
	setDefault(&o.MaxCalls, 75)
	setDefault(&o.BackoffMin, 100*time.Millisecond)
	setDefault(&o.BackoffMax, time.Minute)
	setDefault(&o.StopGrace, 500*time.Millisecond)
	setDefault(&o.CancelGrace, time.Second)
	setDefault(&o.RefreshEvery, time.Minute)
	if o.Environ == nil {
		o.Environ = func(string) (string, bool) { return "", false }
	}
	if o.Secrets == nil {
		o.Secrets = redact.New()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// setDefault sets *v to def, unless *v is positive already.
func setDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

var serverID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,47}$`)

// withDefaults returns the server's configuration with its defaults. The error joins the first mistake that each check
// finds. No check needs files or the network.
func (s Server) withDefaults() (Server, error) {
	setDefault(&s.ConnectTimeout, 30*time.Second)
	setDefault(&s.CallTimeout, time.Minute)
	setDefault(&s.MaxConcurrent, 64)
	if s.Required {
		setDefault(&s.CatalogueGrace, 10*time.Minute)
	}
	setDefault(&s.CatalogueGrace, DefaultGrace)
	if s.Transport == "" {
		s.Transport = s.transport()
	}
	return s, errors.Join(s.checkID(), s.checkTransport(), s.checkLogin(), s.checkTools(), s.checkLocalActivities())
}

// transport returns the transport of a server that names none: stdio for a command, SSE for a URL whose path ends in
// /sse, as the paths of servers of that transport do, and else streamable HTTP.
func (s Server) transport() Transport {
	u, err := url.Parse(s.URL)
	switch {
	case s.Command != "":
		return TransportStdio
	case err == nil && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse"):
		return TransportSSE
	}
	return TransportHTTP
}

// checkID refuses an ID that is malformed or reserved.
func (s Server) checkID() error {
	if !serverID.MatchString(s.ID) {
		return fmt.Errorf("MCP server ID %q: use at most 48 letters, digits, dots, underscores and dashes, beginning with "+
			"a letter or digit", s.ID)
	}
	if s.ID == LocalID {
		return fmt.Errorf("MCP server ID %q is taken by this program's own tools: choose another", s.ID)
	}
	return nil
}

// checkTransport refuses an unknown transport, settings that contradict each other or the transport, and a URL that may
// not be requested.
func (s Server) checkTransport() error {
	switch {
	case s.Transport == TransportStdio && s.Command == "":
		return fmt.Errorf("MCP server %q: set its command", s.ID)
	case s.Transport == TransportStdio && s.URL != "":
		return fmt.Errorf("MCP server %q: set a command or a URL, not both", s.ID)
	case s.Transport == TransportStdio && s.OAuth.TokenURL != "":
		return fmt.Errorf(
			"MCP server %q: OAuth is for servers over http and sse: give a command its secrets by its environment", s.ID)
	case s.Transport == TransportStdio:
		return nil
	case s.Transport != TransportHTTP && s.Transport != TransportSSE:
		return fmt.Errorf("MCP server %q: transport %q is not known: use stdio, http or sse", s.ID, s.Transport)
	case s.Command != "":
		return fmt.Errorf("MCP server %q: a server over %s has a URL and no command", s.ID, s.Transport)
	}
	_, err := newGuard(s)
	return err
}

// checkLocalActivities refuses local activities on a server with session affinity. A local activity runs on the worker
// that has the turn, which may not be the worker whose connection holds the server's state.
func (s Server) checkLocalActivities() error {
	for name, t := range s.Tools {
		if s.SessionAffinity && t.LocalActivity {
			return fmt.Errorf("MCP server %q: tool %q has local_activity, but the server has session_affinity: local "+
				"activities run on the worker that has the turn", s.ID, name)
		}
	}
	return nil
}

// checkTools refuses malformed tool patterns and invalid settings of single tools.
func (s Server) checkTools() error {
	for _, glob := range append(append([]string{}, s.Allow...), s.Deny...) {
		if _, err := path.Match(glob, ""); err != nil {
			return fmt.Errorf("MCP server %q: tool pattern %q: %w", s.ID, glob, err)
		}
	}
	for name, t := range s.Tools {
		if err := t.Check(); err != nil {
			return fmt.Errorf("MCP server %q: tool %q: %w", s.ID, name, err)
		}
	}
	return nil
}

// allows reports whether the operator offers the tool to models.
func (s Server) allows(tool string) bool {
	if matchAny(s.Deny, tool) {
		return false
	}
	return len(s.Allow) == 0 || matchAny(s.Allow, tool)
}

// matchAny reports whether the name matches one of the patterns.
func matchAny(globs []string, name string) bool {
	for _, g := range globs {
		if ok, _ := path.Match(g, name); ok { // the patterns were checked by checkTools
			return true
		}
	}
	return false
}

// newGuard returns the guard that keeps requests to the server at its URL and in its networks. It also checks
// OAuth.TokenURL, whose requests get a guard of their own.
func newGuard(s Server) (*netguard.Guard, error) {
	if s.URL == "" {
		return nil, fmt.Errorf("MCP server %q: set its URL (or a command)", s.ID)
	}
	g, err := netguard.New(s.URL, s.Networks)
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: its URL %w", s.ID, err)
	}
	if s.OAuth.TokenURL != "" {
		if _, err := netguard.New(s.OAuth.TokenURL, s.Networks); err != nil {
			return nil, fmt.Errorf("MCP server %q: its token URL %w", s.ID, err)
		}
	}
	return g, nil
}
