package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/toolbox/stdio"
)

// The protocol versions that a handshake begins with. The empty one is the SDK's latest, which asks the server to
// describe itself first; servers that never heard of that may stay silent, so over stdio the older one goes first.
const (
	versionLatest = ""
	versionLegacy = "2025-11-25"
)

// link is one connection to one incarnation of a server, below the protocol.
type link struct {
	transport mcp.Transport
	watched   *watchedTransport // transport where it tells what was sent and answered; else nil
	meter     *meter            // nil: the connection has no bounds
	versions  []string          // to try, in this order
	// stop ends it and everything that belongs to it, within a bounded time. It may be called twice.
	stop func() error
	// tail is what the server last said on stderr.
	tail func() string
	// fate says how the server's process ended; empty while it runs or where there is none.
	fate func() string
	// disposable: a new incarnation can replace this one, and ends the work that it still does.
	disposable bool
}

func silent() string { return "" }

// dialer makes links to one server, each for one tenant.
type dialer interface {
	dial(ctx context.Context, tenant string) (*link, error)
}

// stdioDialer runs the server as a child process.
type stdioDialer struct {
	spawner *stdio.Spawner
	server  Server
	path    string // PATH to search
	env     []string
	as      *account // nil: this program's
	opts    Options
	total   *totals
	seen    *processes
}

func (d *stdioDialer) dial(_ context.Context, tenant string) (*link, error) {
	file, err := findCommand(d.server, d.path)
	if err != nil {
		return nil, err
	}
	m := newMeter(d.server.ID, d.total, d.opts.MaxFrameBytes)
	out := newStream(m.dropped, m)
	p, err := d.spawner.Start(stdio.Command{
		Path: file, Args: d.server.Args, Env: tenantEnv(d.env, tenant), Dir: d.server.Dir,
		MaxFrameBytes: d.opts.MaxFrameBytes, StderrBytes: d.opts.StderrTailBytes,
		User: d.as.credential(), OnStdout: out.lines, OnStderr: m.printed,
		OnChange: func(p *stdio.Process) { d.seen.saw(tenant, p) },
	})
	if err != nil {
		return nil, err
	}
	m.onDrop(func() { p.Signal(syscall.SIGKILL) })
	t := &watchedTransport{
		inner: &mcp.IOTransport{Reader: p.Stdout, Writer: p.Stdin, MaxLineLength: -1}, // Frames has the limit
		sent:  p.Stdin.Written, meter: m, out: out,
	}
	return &link{
		transport: t, watched: t, meter: m, versions: []string{versionLegacy, versionLatest}, disposable: true,
		stop: func() error { defer out.whole(); return p.Stop(d.opts.StopGrace) }, tail: p.Stderr.String, fate: p.Fate,
	}, nil
}

// localDialer connects to this program's own tools over a pipe in memory.
type localDialer struct{ local *Local }

func (d *localDialer) dial(ctx context.Context, _ string) (*link, error) {
	here, there := net.Pipe()
	// The context's end must not end the session that is made under it.
	_, err := d.local.server.Connect(context.WithoutCancel(ctx), pipeTransport(there), nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the local tools: %w", err), here.Close(), there.Close())
	}
	t := &watchedTransport{inner: pipeTransport(here)}
	stop := func() error { return errors.Join(here.Close(), there.Close()) }
	return &link{transport: t, watched: t, versions: []string{versionLegacy}, stop: stop, tail: silent, fate: silent}, nil
}

// pipeTransport has no limit on messages: what is sent over it was bounded where it was made.
func pipeTransport(c net.Conn) *mcp.IOTransport {
	return &mcp.IOTransport{Reader: onceCloser{c, new(sync.Once)}, Writer: onceCloser{c, new(sync.Once)}, MaxLineLength: -1}
}

// onceCloser makes Close idempotent.
type onceCloser struct {
	net.Conn
	once *sync.Once
}

func (c onceCloser) Close() (err error) {
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}

var _ io.ReadWriteCloser = onceCloser{}

// errHostClosed is why nothing is started any more.
var errHostClosed = inOurs("the tool host is closed")

// tasks are goroutines that end before their owner does.
type tasks struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// start runs f in a goroutine, or reports that it is too late for that.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.wg.Go(f)
	}
	return !t.closed
}

// close lets no more start and waits for those that run.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}

// within runs f and waits for it at most d; what takes longer goes on by itself.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
