package fakellm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Server is a scripted provider.
type Server struct {
	listener net.Listener
	http     *http.Server
	quit     chan struct{}
	once     sync.Once
	served   chan struct{}

	mu       sync.Mutex
	script   Script
	requests []*Request
	drained  int // entries that Drain has taken
	seen     map[[32]byte]int
	changed  chan struct{}
}

// Start serves the script on a port of its own until the test ends.
func Start(tb testing.TB, s Script) *Server {
	tb.Helper()
	server, err := NewServer("127.0.0.1:0", s)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = server.Close() })
	return server
}

// NewServer serves the script at addr until Close.
func NewServer(addr string, s Script) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for the scripted model: %w", err)
	}
	server := &Server{listener: listener, script: s, quit: make(chan struct{}), served: make(chan struct{}),
		seen: map[[32]byte]int{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	for path, d := range dialects {
		mux.HandleFunc("POST /v1"+path, func(w http.ResponseWriter, r *http.Request) { server.infer(w, r, d) })
	}
	mux.HandleFunc("GET /v1/models", models)
	server.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(server.served)
		_ = server.http.Serve(listener) // ends with Close
	}()
	return server, nil
}

// URL is the base URL, with /v1.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/v1" }

// Close ends all responses and stops the server.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		close(s.quit)
		err = s.http.Close()
		<-s.served
	})
	return err
}

// SetScript replaces the script for later requests.
func (s *Server) SetScript(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// Requests returns the ledger so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, len(s.requests))
	for i, r := range s.requests {
		out[i] = *r
	}
	return out
}

// Drain removes the finished entries from the ledger and returns them, in order of arrival, so that a long run does not
// have to hold every request body.
func (s *Server) Drain() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ended []Request
	var open []*Request
	for _, r := range s.requests {
		if r.Outcome == Open {
			open = append(open, r)
			continue
		}
		ended = append(ended, *r)
	}
	s.requests, s.drained = open, s.drained+len(ended)
	return ended
}

// Await waits until the ledger satisfies a condition, or ctx ends.
func (s *Server) Await(ctx context.Context, ok func([]Request) bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if ok(s.Requests()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the scripted model's ledger: %w", context.Cause(ctx))
		}
	}
}

// update changes an entry and wakes the callers of Await.
func (s *Server) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// maxBody bounds a request, in bytes.
const maxBody = 256 << 20

func (s *Server) infer(w http.ResponseWriter, r *http.Request, d dialect) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the client went away
	}
	chat, err := d.parse(body)
	if err != nil {
		refuse(w, err)
		return
	}
	entry, script := s.enter(r, body, d.name, chat)
	reply := script.Reply(*entry)
	s.update(func() { entry.Reply = reply.name })
	p := player{server: s, w: w, r: r, reply: reply, entry: entry, dialect: d}
	defer func() {
		s.update(func() { entry.Outcome, entry.Duration = p.outcome, time.Since(entry.At) })
		if p.outcome == Cut && reply.ending == endReset {
			reset(w)
		}
	}()
	p.play()
}

func (s *Server) enter(r *http.Request, body []byte, api string, chat Chat) (*Request, Script) {
	var entry *Request
	var script Script
	s.update(func() {
		key := fingerprint(body)
		s.seen[key]++
		entry = &Request{Index: s.drained + len(s.requests), At: time.Now(), Header: r.Header.Clone(), Body: body, API: api,
			Chat: chat,
			Step: chat.step(), Attempt: s.seen[key], Outcome: Open}
		s.requests = append(s.requests, entry)
		script = s.script
	})
	return entry, script
}

// reset breaks the connection with a RST: SO_LINGER of 0 makes Close send one.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func models(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"scripted","object":"model"}]}`)
}
