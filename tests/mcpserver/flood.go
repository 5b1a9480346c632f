package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// The kinds of -flood. The server answers the handshake and the request for its tools, one of which is work. It then
// sends -flood-max messages of the kind as fast as the client takes them: at once or, with -flood-call, in the middle
// of a call. It reads no answers to them.
const (
	floodPing     = "ping"         // requests
	floodElicit   = "elicit"       // requests that a person must answer
	floodChanged  = "list_changed" // notifications
	floodLog      = "log"
	floodProgress = "progress"
	floodValues   = "values"  // notifications of a million values each
	floodNesting  = "nesting" // notifications of 100,000 arrays in each other
	floodBlank    = "blank"   // empty lines, a MiB of them in each message
	floodStderr   = "stderr"  // lines of 8 KiB; over stdio only
	floodReopen   = "reopen"  // streams that end at once and ask to be reopened; over HTTP only
)

// floodMessage returns message number n.
func (p *program) floodMessage(n int) string {
	switch p.flood {
	case floodPing:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"f%d","method":"ping"}`, n)
	case floodElicit:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"f%d","method":"elicitation/create","params":{"message":"Number %d?",`+
			`"requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`, n, n)
	case floodChanged:
		return `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	case floodLog:
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello"}}`
	case floodProgress:
		return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"none","progress":1}}`
	case floodValues:
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":[0` +
			strings.Repeat(`,{}`, 1<<20) + `]}}`
	case floodNesting:
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` +
			strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000) + `}}`
	case floodBlank:
		return strings.Repeat("\n", 1<<20)
	}
	return ""
}

// pour writes the flood, each message between before and after.
func (p *program) pour(ctx context.Context, w io.Writer, before, after string) {
	if p.flood == floodStderr {
		w, before, after = p.err, strings.Repeat("x", 8<<10), "\n"
	}
	for n := range p.floodMax {
		if ctx.Err() != nil {
			return
		}
		if _, err := io.WriteString(w, before+p.floodMessage(n)+after); err != nil {
			return
		}
	}
	<-ctx.Done()
}

// floodStdio is the flooding server over stdio. Once it floods it reads no more.
func (p *program) floodStdio(ctx context.Context) error {
	for in := json.NewDecoder(p.in); ; {
		var req rawRequest
		if err := in.Decode(&req); err != nil {
			return err
		}
		floods := req.Method == "tools/list" && !p.floodCall || req.Method == "tools/call" && p.floodCall
		if req.ID != nil && req.Method != "tools/call" {
			fmt.Fprintln(p.out, p.floodAnswer(req))
		}
		if floods {
			p.pour(ctx, p.out, "", "\n")
			return nil
		}
	}
}

func (p *program) floodAnswer(req rawRequest) string {
	answer := p.rawAnswer(req)
	if req.Method == "tools/list" {
		answer = `{"tools":[` + fmt.Sprintf(rawTool, "work", "Work.", `{"type":"object"}`) + `]}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, answer)
}

// floodHTTP is the flooding server over streamable HTTP, or with -sse over the transport before it.
func (p *program) floodHTTP(ctx context.Context) error {
	l, err := net.Listen("tcp", p.http)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "http://%s/mcp\n", l.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.untilEOF {
		go func() { defer cancel(); _, _ = io.Copy(io.Discard, p.in) }()
	}
	answers := make(chan string, 16) // with -sse
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			p.floodStream(w, r, answers)
		} else {
			p.floodPost(w, r, answers)
		}
	})
	srv := &http.Server{Handler: handler} //nolint:gosec // loopback, for tests
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	_ = srv.Serve(l) // its end is what was asked for
	return nil
}

// floodStream is the stream that a client opens with GET.
func (p *program) floodStream(w http.ResponseWriter, r *http.Request, answers <-chan string) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := flushed{w, http.NewResponseController(w)}
	if p.flood == floodReopen {
		p.opened.Add(1)
		fmt.Fprintf(out, "retry: 1\nid: %d\ndata:\n\n", p.opened.Load())
		return
	}
	if p.sse {
		fmt.Fprint(out, "event: endpoint\ndata: /mcp\n\n")
		for range 2 { // the handshake and the tools
			fmt.Fprintf(out, "event: message\ndata: %s\n\n", <-answers)
		}
	}
	if !p.floodCall {
		p.pour(r.Context(), out, "data: ", "\n\n")
	}
	fmt.Fprint(out, ": hello\n\n")
	<-r.Context().Done()
}

// floodPost receives the client's messages. It holds answers to the flood.
func (p *program) floodPost(w http.ResponseWriter, r *http.Request, answers chan<- string) {
	var req rawRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		w.WriteHeader(http.StatusAccepted) // the end of the session
		return
	}
	switch {
	case req.Method == "":
		<-r.Context().Done()
	case req.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case p.sse:
		w.WriteHeader(http.StatusAccepted)
		answers <- p.floodAnswer(req)
	case req.Method == "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		p.pour(r.Context(), flushed{w, http.NewResponseController(w)}, "data: ", "\n\n")
	case req.Method == "server/discover":
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "flood")
		fmt.Fprint(w, p.floodAnswer(req))
	}
}

// flushed is a response that sends every write at once.
type flushed struct {
	io.Writer
	c *http.ResponseController
}

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	_ = f.c.Flush()
	return n, err
}
