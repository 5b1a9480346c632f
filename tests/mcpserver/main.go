package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// program is a run of the server: its flags and streams.
type program struct {
	mode, modeFile, ledger, release, block, pidfile, http string
	faceFile, leak, spy                                   string

	untilEOF, times, mute, stateless, old bool

	flood          string
	floodMax       int
	floodCall, sse bool
	opened         atomic.Int64 // streams

	in       io.Reader
	out, err io.Writer
	server   *mcp.Server

	face       atomic.Pointer[string] // the current face of append
	remembered atomic.Int64
}

func main() {
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	p.parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := p.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcpserver:", err)
		os.Exit(1)
	}
}

func (p *program) parse(args []string) {
	f := flag.NewFlagSet("mcpserver", flag.ExitOnError)
	f.StringVar(&p.mode, "mode", "", "misbehave: see modes in modes.go")
	f.StringVar(&p.modeFile, "mode-file", "", "file that holds the mode, where it is there when the server starts")
	f.StringVar(&p.ledger, "ledger", "", "file to which append writes its effects")
	f.BoolVar(&p.times, "times", false, "say in the ledger when each event was, and in which process")
	f.StringVar(&p.release, "release", "", "file whose appearance lets blocked calls go on")
	f.StringVar(&p.block, "block", "", "where append waits when a call does not say: before, after or never")
	f.StringVar(&p.pidfile, "pidfile", "", "file to write the process ID to, and the grandchild's below it")
	f.StringVar(&p.http, "http", "", "serve streamable HTTP on this address, printing the URL on stdout")
	f.StringVar(&p.faceFile, "face", "", "file that holds the face of append: see faces in faces.go; read again at SIGHUP")
	f.BoolVar(&p.stateless, "stateless", false, "with -http: keep no sessions, which the newest protocol wants")
	f.BoolVar(&p.old, "old", false, "know no protocol in which a call need not be held while something is asked")
	f.BoolVar(&p.mute, "mute", false, "tell nobody that the list of tools has changed")
	f.StringVar(&p.leak, "leak", "", "names, with commas, of variables that the tool leak tells everybody")
	f.BoolVar(&p.untilEOF, "until-eof", false, "with -http: end when stdin ends, so that a dead test leaves no server")
	f.StringVar(&p.flood, "flood", "", "flood the client: see the kinds in flood.go")
	f.IntVar(&p.floodMax, "flood-max", 50_000, "how many messages to send")
	f.BoolVar(&p.floodCall, "flood-call", false, "flood in the middle of a call")
	f.BoolVar(&p.sse, "sse", false, "with -flood and -http: speak the transport before streamable HTTP")
	f.StringVar(&p.spy, "spy", "", "file to write to, as JSON, who this is and what it can read of its parent")
	_ = f.Parse(args) // ExitOnError
}

func (p *program) run(ctx context.Context) error {
	if p.pidfile != "" {
		if err := os.WriteFile(p.pidfile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
			return err
		}
	}
	if p.spy != "" {
		if err := p.spyOnParent(); err != nil {
			return err
		}
	}
	if b, err := os.ReadFile(p.modeFile); err == nil {
		p.mode = strings.TrimSpace(string(b))
		p.note("mode", p.mode)
	}
	if handled, err := p.misbehave(ctx); handled || err != nil {
		return err
	}
	switch {
	case p.flood != "" && p.http != "":
		return p.floodHTTP(ctx)
	case p.flood != "":
		return p.floodStdio(ctx)
	}
	p.server = mcp.NewServer(&mcp.Implementation{Name: "mcpserver", Version: "1"}, p.options())
	p.addTools()
	defer p.followFace(ctx)()
	if p.http != "" {
		return p.serveHTTP(ctx)
	}
	err := p.server.Run(ctx, &mcp.StdioTransport{})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// options returns the SDK's own options, except that a mute server does not promise to announce changes, and so does
// not.
func (p *program) options() *mcp.ServerOptions {
	o := &mcp.ServerOptions{}
	if p.mute {
		o.Capabilities = &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
	}
	if p.old {
		o.SupportedProtocolVersions = oldVersions
	}
	return o
}

func (p *program) serveHTTP(ctx context.Context) error {
	l, err := net.Listen("tcp", p.http)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "http://%s/mcp\n", l.Addr())
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return p.server },
		&mcp.StreamableHTTPOptions{Stateless: p.stateless})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.untilEOF {
		go func() {
			defer cancel()
			_, _ = io.Copy(io.Discard, p.in) // its end is what matters
		}()
	}
	srv := &http.Server{Handler: handler} //nolint:gosec // loopback, for tests
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
