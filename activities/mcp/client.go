package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/everturn/everturn/activities/mcp/pool"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// methodInitialize opens a session of an older protocol.
const methodInitialize = "initialize"

// client returns the MCP client of this session.
func (s *session) client() *sdk.Client {
	opts := &sdk.ClientOptions{
		Capabilities:                s.owner.capabilities(),
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { s.markStale() },
		ProgressNotificationHandler: s.progressed,
	}
	if server := s.owner.describer.server; server.ElicitationTimeout > 0 {
		opts.ElicitationHandler = s.elicited
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "everturn", Version: "1"}, opts)
	client.AddSendingMiddleware(s.owner.hideElicitation, s.owner.recoverPanics, trimResults)
	client.AddReceivingMiddleware(s.owner.recoverPanics, refuseSampling, requireParams)
	return client
}

// capabilities returns the client capabilities that servers are told. They include elicitation, for servers of the
// newest protocol; modest removes it again for servers of an older one.
func (c *connector) capabilities() *sdk.ClientCapabilities {
	return &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{ // not nil, which would advertise roots
		Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{},
	}}
}

// hideElicitation is sending middleware that does not offer elicitation to servers of older protocols unless
// ElicitationTimeout is set.
func (c *connector) hideElicitation(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if p, ok := req.GetParams().(*sdk.InitializeParams); ok && method == methodInitialize &&
			c.describer.server.ElicitationTimeout <= 0 {
			p.Capabilities.Elicitation = nil
		}
		return next(ctx, method, req)
	}
}

// upgraded returns the session to use with a server whose handshake succeeded in this version. It is a new session if
// the server also knows a newer protocol, which a handshake in the older one does not show. The connector remembers the
// answer, so that only the first connect takes two handshakes. A server that took long to start keeps its session: it
// might not be ready again within the same time. A server that exits when it is asked is started once more, and not
// asked again.
func (c *connector) upgraded(ctx context.Context, s *session, version string) (*session, error) {
	deadline, _ := ctx.Deadline()
	hurried := time.Until(deadline) < c.describer.server.ConnectTimeout*2/3
	before := c.version.Swap(&version)
	if version != versionLegacy || before != nil && *before == version || hurried || !s.link.disposable {
		return s, nil
	}
	newest := s.supportsNewestProtocol(ctx)
	if !newest && s.link.watched.broken() == nil {
		return s, nil
	}
	s.retire()
	select {
	case <-s.lost: // its process ends before the next one starts
	case <-ctx.Done():
	}
	if !newest {
		return c.open(ctx, s.conn)
	}
	c.version.Store(new(versionLatest))
	newer, err := c.open(ctx, s.conn)
	if err == nil {
		return newer, nil
	}
	c.log.Info("an MCP server does not do what it says of the newest protocol", "server", c.id(), "error", err)
	c.version.Store(&version)
	return c.open(ctx, s.conn)
}

// supportsNewestProtocol asks a server, after a handshake in the older protocol, whether it knows the newest one too.
// That handshake goes first because some servers exit or fall silent when they receive anything else first.
func (s *session) supportsNewestProtocol(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	params := &sdk.DiscoverParams{Meta: sdk.Meta{
		sdk.MetaKeyProtocolVersion: newestVersion, sdk.MetaKeyClientInfo: &sdk.Implementation{Name: "everturn", Version: "1"},
		sdk.MetaKeyClientCapabilities: map[string]any{},
	}}
	r, err := sdk.CallCustomMethod[*sdk.DiscoverParams, *sdk.DiscoverResult](ctx, s.mcp, "server/discover", params)
	if err != nil {
		return false
	}
	for _, v := range r.SupportedVersions {
		if v >= newestVersion {
			return true
		}
	}
	return false
}

const (
	newestVersion  = "2026-07-28" // the first protocol whose elicitations take several rounds
	discoverWithin = time.Second
)

// The SDK reads what a server sends in its own goroutines and in ours, and does not recover from panics there. One line
// of one server must not end the worker with the calls of all other servers.

// recoverPanics is middleware that turns a panic into an error, both for a server's requests and for its responses.
func (c *connector) recoverPanics(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer c.recoverPanic(method, &err)
		return next(ctx, method, req)
	}
}

// recoverPanic recovers from a panic while this package processes what a server sent, and sets *err. It must be
// deferred directly.
func (c *connector) recoverPanic(doing string, err *error) {
	if p := recover(); p != nil {
		c.log.Error("what an MCP server said cannot be read", "server", c.id(), "doing", doing, "panic", p, "stack",
			string(debug.Stack()))
		*err = fmt.Errorf("what it said to %s cannot be read", doing)
	}
}

// noSampling is the error message for a server that requests sampling.
const noSampling = "Everturn does not support sampling, which MCP deprecates (SEP-2577)"

// refuseSampling is receiving middleware that answers sampling/createMessage with an error that gives the reason. The
// code is not CodeMethodNotFound, because the SDK replaces the message of errors with that code.
func refuseSampling(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "sampling/createMessage" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: noSampling}
		}
		return next(ctx, method, req)
	}
}

// requireParams is receiving middleware that rejects requests without the params that the SDK dereferences unchecked.
// For some of them the SDK does so under a lock, which a panic would leave locked.
func requireParams(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		missing := false
		switch p := req.GetParams().(type) {
		case *sdk.ElicitParams:
			missing = p == nil
		case *sdk.ElicitationCompleteParams:
			missing = p == nil
		}
		if missing {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: method + " has no params"}
		}
		return next(ctx, method, req)
	}
}

// addTraceContext adds the trace context of ctx to a request, under the unprefixed keys traceparent and tracestate that
// SEP-414 of the Model Context Protocol reserves for it.
func addTraceContext(ctx context.Context, meta sdk.Meta) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for key, value := range carrier {
		meta[key] = value
	}
}

// connector opens the connections to one server, which its pool holds, and keeps what the worker knows of the server. A
// connector belongs to one server of one Host, so all of its sessions share one configuration and its credentials; each
// session belongs to one tenant.
type connector struct {
	describer    describer
	dialer       dialer
	redact       redactor
	opts         Options
	log          *slog.Logger
	ctx          context.Context // ends when the host closes
	running      *tasks          // the host's goroutines
	pool         *pool.Pool
	serverPlaces chan struct{}          // one element for each call of this server that occupies the worker
	workerPlaces chan struct{}          // the host's, shared by all servers
	processes    *processes             // nil: this worker does not run the server
	events       chan struct{}          // signals a change; capacity 1
	version      atomic.Pointer[string] // of the last handshake that succeeded

	mu     sync.Mutex
	known  *turn.Catalogue // the catalogue that the default tenant's connection listed last
	stderr string          // the end of the last process's stderr
}

func (c *connector) id() string { return c.describer.server.ID }

// name returns the server's name for messages.
func (c *connector) name() string { return fmt.Sprintf("MCP server %q", c.id()) }

// openPool creates the pool of the server's connections.
func (c *connector) openPool() {
	s := c.describer.server
	c.pool = pool.New(c.ctx, pool.Options{
		Name: c.name(), Dial: c.dial, Go: c.running.start, Changed: c.notifyWatcher, Log: c.log.With("server", c.id()),
		ConnectTimeout: s.ConnectTimeout, IdleTimeout: s.IdleTimeout, MaxCalls: s.MaxConcurrent,
		BackoffMin: c.opts.BackoffMin, BackoffMax: c.opts.BackoffMax,
	})
}

// dial opens a session for a connection of the pool.
func (c *connector) dial(ctx context.Context, conn *pool.Conn) (pool.Link, *pool.Failure) {
	s, err := c.open(ctx, conn)
	if err == nil {
		return s, nil
	}
	f := &pool.Failure{Problem: err.Error(), ModelText: modelText(err)}
	if e := (*Excess)(nil); errors.As(err, &e) {
		f.Excess = e
	}
	return nil, f
}

// connection returns the session for a call, with one more user. The session belongs to the call's tenant; with a
// stateful server it belongs to the turn. A turn that resumes with a stateful server gets the very session that it used
// before, or tool_state_lost: a new session would have lost the turn's state silently.
func (c *connector) connection(ctx context.Context, req turn.ToolRequest) (*session, error) {
	if !c.describer.server.SessionAffinity || req.Turn == "" {
		return c.acquire(ctx, req.Tenant, "")
	}
	if !req.Resume {
		s, err := c.acquire(ctx, req.Tenant, req.Turn)
		if err == nil {
			s.conn.Found(req.CallID)
		}
		return s, err
	}
	if conn := c.pool.Resume(pool.Key{Tenant: req.Tenant, Turn: req.Turn}, req.OwningCall); conn != nil {
		return conn.Link().(*session), nil
	}
	return nil, turn.Errorf(turn.CodeToolStateLost, nil,
		fmt.Sprintf("server state lost: the connection that held what %s "+
			"remembered of this turn has ended. %s was not called. Begin again with that server if its state is needed",
			c.name(), req.Tool))
}

// acquire returns the tenant's or the turn's session, with one more user. It connects if there is none.
func (c *connector) acquire(ctx context.Context, tenant, turnID string) (*session, error) {
	conn, err := c.pool.Acquire(ctx, pool.Key{Tenant: tenant, Turn: turnID})
	if err != nil {
		return nil, err
	}
	return conn.Link().(*session), nil
}

// open dials and does the handshake, in each protocol version worth trying. If the server rejects one version, open
// tries the other; over HTTP it also does so if the server does not respond.
func (c *connector) open(ctx context.Context, conn *pool.Conn) (*session, error) {
	var last error
	var versions []string // chosen once: another tenant's connect may change what is worth trying
	for i := 0; ; i++ {
		l, err := c.dialer.dial(ctx, conn.Tenant)
		if err != nil {
			return nil, &pool.Outage{Problem: c.redact.text(err.Error()), ModelText: safeErrorText(err)}
		}
		if i == 0 {
			versions = c.worthTrying(l)
		}
		probe, cancel := ctx, context.CancelFunc(func() {})
		if i+1 < len(versions) && !l.disposable {
			probe, cancel = context.WithTimeout(ctx, c.describer.server.ConnectTimeout/3)
		}
		s, err := c.handshake(probe, conn, l, versions[i])
		silentProbe := probe.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return c.upgraded(ctx, s, versions[i])
		}
		last = c.explain(ctx, l, err)
		var refusal *jsonrpc.Error
		if i+1 >= len(versions) || !silentProbe && !errors.As(err, &refusal) {
			c.version.Store(nil)
			return nil, last
		}
	}
}

// worthTrying returns the version of the last handshake that succeeded, or else the link's.
func (c *connector) worthTrying(l *link) []string {
	if known := c.version.Load(); known != nil {
		return []string{*known}
	}
	return l.versions
}

// explain returns the error of a failed handshake, with the end of the server's stderr.
func (c *connector) explain(ctx context.Context, l *link, err error) error {
	why, told := c.clean(err.Error(), 400), safeErrorText(err)
	server := c.describer.server
	if ctx.Err() != nil {
		why = fmt.Sprintf("it did not finish its handshake within %s (timeouts.connect)", server.ConnectTimeout)
		told = why
		if server.URL == "" {
			why += "; if it is still downloading, install it first or raise that"
		}
	}
	if at := printable.Address(server.URL); at != "" && !strings.Contains(why, at) {
		why = at + ": " + why
	}
	if fate := l.fate(); fate != "" {
		why += "; its process ended with " + fate
		told = "its process ended with " + fate
	}
	c.keepStderr(l)
	if e := l.meter.excess(); e != nil {
		return fmt.Errorf("%w%s", e, c.stderrNote(l))
	}
	return &pool.Outage{Problem: c.redact.text(why) + c.stderrNote(l), ModelText: told}
}

// stderrNote returns the end of the server's stderr, for operators.
func (c *connector) stderrNote(l *link) string {
	tail := c.stderrTail(l)
	if tail == "" {
		return ""
	}
	return "; its stderr ends with:\n" + tail
}

// stderrTail returns at most the last 1 KiB of stderr, redacted before it is cut.
func (c *connector) stderrTail(l *link) string {
	kept := l.tail()
	tail := printable.Sanitize(kept)
	if len(kept) >= c.opts.StderrTailBytes { // the text before it is lost
		tail = c.redact.tail(tail)
	}
	tail = c.redact.text(tail)
	if len(tail) > 1024 {
		tail = "…" + tail[printable.Start(tail, len(tail)-1024):]
	}
	return tail
}

// setCatalogue keeps the latest catalogue and wakes the watcher if it differs. There is one catalogue for all tenants:
// the one that the default tenant's connection lists. If another tenant's connection lists a different one, the default
// tenant's connection lists again.
func (c *connector) setCatalogue(tenant string, offered turn.Catalogue) {
	c.mu.Lock()
	before := c.known
	changed := before == nil || before.Hash != offered.Hash
	if changed && tenant == "" {
		c.known = &offered
	}
	c.mu.Unlock()
	if !changed {
		return
	}
	if n := offered.Misnamed; tenant == "" && len(n) > 0 && (before == nil || !slices.Equal(n, before.Misnamed)) {
		c.log.Warn("agent.toml names tools that the server does not offer", "server", c.id(), "tools", n)
	}
	if tenant != "" {
		c.pool.Wake()
	}
	c.notifyWatcher()
}

// notifyWatcher wakes the watcher.
func (c *connector) notifyWatcher() {
	select {
	case c.events <- struct{}{}:
	default:
	}
}

// catalogue returns what the server offers now, or a catalogue whose Problem says why it cannot be listed.
func (c *connector) catalogue(ctx context.Context) turn.Catalogue {
	s, err := c.acquire(ctx, "", "")
	if err == nil {
		defer s.leave()
		var o offer
		if o, err = s.offer(ctx, false); err == nil {
			return o.catalogue
		}
	}
	out := c.describer.emptyCatalogue()
	out.Problem = err.Error()
	return out
}
