package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/mcp/childproc"
	"github.com/everturn/everturn/internal/childenv"
	"github.com/everturn/everturn/workflows/turn"
)

// stdioDialer starts a server as a child process and connects to it over stdio.
type stdioDialer struct {
	spawner    *childproc.Spawner
	server     Server
	searchPath string // PATH to search
	env        []string
	runAs      *account // nil: this program's
	opts       Options
	total      *totals
	processes  *processes
}

// dial starts a process of the server that works for the tenant.
func (d *stdioDialer) dial(_ context.Context, tenant string) (*link, error) {
	file, err := findCommand(d.server, d.searchPath)
	if err != nil {
		return nil, err
	}
	m := newMeter(d.server.ID, d.total, d.opts.MaxFrameBytes)
	incoming := newStream(m.dropped, m)
	p, err := d.spawner.Start(childproc.Command{
		Path: file, Args: d.server.Args, Env: tenantEnv(d.env, tenant), Dir: d.server.Dir,
		MaxFrameBytes: d.opts.MaxFrameBytes, StderrBytes: d.opts.StderrTailBytes,
		User: d.runAs.credential(), OnStdout: incoming.countLines, OnStderr: m.countStderr,
		OnChange: func(p *childproc.Process) { d.processes.record(tenant, p) },
	})
	if err != nil {
		return nil, err
	}
	m.onDrop(func() { p.Signal(syscall.SIGKILL) })
	t := &watchedTransport{
		inner:   &sdk.IOTransport{Reader: p.Stdout, Writer: p.Stdin, MaxLineLength: -1}, // Frames enforces the limit
		written: p.Stdin.Written, meter: m, incoming: incoming,
	}
	return &link{
		transport: t, watched: t, meter: m, versions: []string{versionLegacy, versionLatest}, disposable: true,
		stop: func() error { defer incoming.clearUnfinished(); return p.Stop(d.opts.StopGrace) },
		tail: p.Stderr.String, fate: p.Fate,
	}, nil
}

// childEnv returns the complete environment of a server's process (NAME=value, sorted), except for the mark that
// package childproc adds. Later sources replace earlier ones: the base variables, those of the account runAs (nil: this
// program's account), the variables that the server may inherit (EnvAllow), and Env. lookup reads this program's
// environment. inherited holds the values of the EnvAllow variables, in their order.
func childEnv(s Server, runAs *account,
	lookup func(name string) (string, bool)) (env, inherited []string, err error) {
	vars := map[string]string{}
	for _, name := range childenv.Base {
		if v, ok := lookup(name); ok {
			vars[name] = v
		}
	}
	if runAs != nil {
		vars["HOME"], vars["USER"], vars["LOGNAME"] = runAs.HomeDir, runAs.Username, runAs.Username
	}
	for _, name := range s.EnvAllow {
		v, ok := lookup(name)
		if !ok {
			return nil, nil, fmt.Errorf("MCP server %q may inherit %s, which is not set: set it or take it from the list", s.ID,
				name)
		}
		vars[name] = v
		inherited = append(inherited, v)
	}
	for name, v := range s.Env {
		vars[name] = v
	}
	for name, v := range vars {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(v, 0) {
			return nil, nil, fmt.Errorf(
				"MCP server %q: environment variable %q: neither name nor value may hold NUL, nor the name =", s.ID, name)
		}
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env, inherited, nil
}

// EnvTenant is the variable that tells a server's process which tenant it works for. The host sets it for named tenants
// only.
const EnvTenant = "EVERTURN_TENANT"

// tenantEnv returns env with EnvTenant set to the tenant. For the default tenant, whose name is empty, it returns env
// unchanged, with the value that the operator may have given to EnvTenant.
func tenantEnv(env []string, tenant string) []string {
	if tenant == "" {
		return env
	}
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, EnvTenant+"=") })
	return append(out, EnvTenant+"="+tenant)
}

// findCommand checks the server's directory, and returns the absolute path of the program that the server's command
// names. A relative name with a slash is relative to the server's directory, if one is set. A name without a slash is
// looked up in searchPath, a list like PATH.
func findCommand(s Server, searchPath string) (string, error) {
	if err := checkDir(s.Dir); err != nil {
		return "", fmt.Errorf("dir = %q %w: %w", s.Dir, errDir, err)
	}
	if strings.ContainsRune(s.Command, '/') {
		file := s.Command
		if !filepath.IsAbs(file) && s.Dir != "" {
			file = filepath.Join(s.Dir, file)
		}
		if err := checkExecutable(file); err != nil {
			return "", fmt.Errorf("command %q cannot be run: %w", s.Command, err)
		}
		return filepath.Abs(file)
	}
	for _, dir := range filepath.SplitList(searchPath) {
		file := filepath.Join(dir, s.Command)
		if filepath.IsAbs(file) && checkExecutable(file) == nil { // relative entries of PATH are ignored
			return file, nil
		}
	}
	return "", fmt.Errorf("command %q is not in PATH: install it or give its whole path", s.Command)
}

// errDir means that a server's directory is missing or is not a directory.
var errDir = errors.New("cannot be its working directory")

// checkDir returns an error if dir is set and is not a directory. Without this check, starting the process would fail
// with an error that names the program instead of the directory.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

// checkExecutable returns an error if file is not an executable file.
func checkExecutable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", file)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable", file)
	}
	return nil
}

// account is the operating-system account that a server's process runs under.
type account struct {
	user.User
	uid, gid uint32
}

// accountOf looks up the account that the operator named in Server.User, first by name and then by number; nil if the
// field is empty. For a named account it fails unless this program runs as root.
func accountOf(s Server) (*account, error) {
	if s.User == "" {
		return nil, nil
	}
	if uid := os.Geteuid(); uid != 0 {
		return nil, fmt.Errorf("MCP server %q: user = %q needs a worker that runs as root; this one runs as user %d: "+
			"remove the key, or run the server elsewhere and set its URL", s.ID, s.User, uid)
	}
	u, err := user.Lookup(s.User)
	if err != nil {
		u, err = user.LookupId(s.User)
	}
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: user = %q: this machine has no such account", s.ID, s.User)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("MCP server %q: user = %q: %w", s.ID, s.User, err)
	}
	return &account{User: *u, uid: uint32(uid), gid: uint32(gid)}, nil
}

// credential returns the account's user and group. It has no supplementary groups, because this program's groups are
// not the server's.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// maxProcessEvents bounds Health.Processes.
const maxProcessEvents = 8

// processes logs and reports the starts and ends of a server's processes and keeps the last of them. It has its own
// lock, because a process may end while the connector's lock is held.
type processes struct {
	server string
	log    *slog.Logger
	notify func(server string, e turn.ProcessEvent) // Options.OnProcess

	mu     sync.Mutex
	events []turn.ProcessEvent
}

// record logs and keeps an event of a tenant's process: its end if it has ended, otherwise its start.
func (p *processes) record(tenant string, process *childproc.Process) {
	e := turn.ProcessEvent{At: time.Now(), PID: process.PID(), Tenant: tenant, Ended: process.State()}
	log := p.log.With("server", p.server, "tenant", tenant, "pid", e.PID)
	switch {
	case e.Ended == "":
		log.Info("an MCP server's process started")
	case process.Fate() == "": // the worker stopped it
		log.Info("an MCP server's process ended", "with", e.Ended)
	default:
		log.Warn("an MCP server's process ended", "with", e.Ended)
	}
	if p.notify != nil {
		p.notify(p.server, e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	// The clone leaves the slices that last has returned unchanged.
	p.events = slices.Clone(p.events[max(0, len(p.events)-maxProcessEvents):])
}

// last returns the last events, the oldest first. It returns nil for a nil p.
func (p *processes) last() []turn.ProcessEvent {
	if p == nil { // a server without a local process
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}
