package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// mostMessages and mostBytes bound one attack of one process.
	mostMessages = 20_000_000
	mostBytes    = 2 << 30
	// mostHeld bounds the replies that are held back over HTTP. Each costs a descriptor on both sides.
	mostHeld = 12_000
	// questions is the number of elicitations of one call.
	questions = 5_000
	// look is the interval between two checks for the file -armed.
	look = 20 * time.Millisecond
)

// server is one process of the hostile server.
type server struct {
	attack, armed, ledger, http string

	on   atomic.Bool  // the file -armed exists
	sent atomic.Int64 // messages of attacks
	held atomic.Int64 // replies held back

	begun sync.Once  // notes the first attack
	out   sync.Mutex // guards stdout
}

func main() {
	s := &server{}
	flag.StringVar(&s.attack, "attack", "", "the attack: see doc.go")
	flag.StringVar(&s.armed, "armed", "", "attack while this `file` is there")
	flag.StringVar(&s.ledger, "ledger", "", "`file` to note starts and attacks in")
	flag.StringVar(&s.http, "http", "", "serve streamable HTTP on this `address`, and print the URL on stdout")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := s.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile: "+err.Error())
		os.Exit(1)
	}
}

func (s *server) run(ctx context.Context) error {
	if err := s.note("start"); err != nil {
		return err
	}
	go s.watch(ctx)
	if s.http != "" {
		srv := &http.Server{Addr: s.http, Handler: s.handler(), ReadHeaderTimeout: time.Minute}
		defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
		fmt.Printf("http://%s/mcp\n", s.http)
		return srv.ListenAndServe()
	}
	go s.attackStdio(ctx)
	return s.serveStdio(ctx)
}

// watch follows the file -armed.
func (s *server) watch(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for ctx.Err() == nil {
		_, err := os.Stat(s.armed)
		if was := s.on.Swap(err == nil); was && err != nil {
			_ = s.note("end") // the ledger only provides figures
		}
		<-ticker.C
	}
}

// until waits until the attack is on (or off), and reports whether it is.
func (s *server) until(ctx context.Context, on bool) bool {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for s.on.Load() != on {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

func (s *server) note(event string) error {
	f, err := os.OpenFile(s.ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return json.NewEncoder(f).Encode(map[string]any{"event": event, "pid": os.Getpid(), "messages": s.sent.Load()})
}

// begin records that this process attacks.
func (s *server) begin() { s.begun.Do(func() { _ = s.note("attack") }) } // without the line, the waiting schedule fails

// request is a message of the host; without a method it is a reply.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Arguments struct {
			Text string `json:"text"`
		} `json:"arguments"`
	} `json:"params"`
}

// answer returns the reply to a request of the host; nil if the message is not a request.
func answer(req request) []byte {
	switch {
	case req.ID == nil || req.Method == "":
		return nil
	case req.Method == "initialize":
		return reply(req, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},`+
			`"serverInfo":{"name":"hostile","version":"1"}}`)
	case req.Method == "tools/list":
		return reply(req, `{"tools":[{"name":"poke","description":"Answer with the text.",`+
			`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}`)
	case req.Method == "tools/call":
		return reply(req, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, "poked "+req.Params.Arguments.Text))
	case req.Method == "ping":
		return reply(req, `{}`)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, req.ID)
}

func reply(req request, result string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, result)
}

// message returns the n-th message of an attack.
func (s *server) message(n int64) string {
	switch {
	case s.attack == "elicit":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"mode":"form",`+
			`"message":"Question %d?","requestedSchema":{"type":"object","properties":{"sure":{"type":"boolean"}}}}}`, n, n)
	case s.attack == "notify" && n%2 == 0:
		return `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	case s.attack == "notify":
		return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"still working on it"}}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, n)
}
