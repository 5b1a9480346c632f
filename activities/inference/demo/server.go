package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// Model is the name of the only model. Requests for other names are answered too.
const Model = "demo"

// Options configure a Server. The zero value has no delay and picks a port.
type Options struct {
	// Addr is the address to listen on; 127.0.0.1:0 by default. It must be loopback, because the server has no
	// authentication.
	Addr string
	// Delay is the pause between two words of an answer; 0 for none.
	Delay time.Duration
	// Slow is for demonstrations: one word every 150 ms, and between 10 and 25 s for a whole answer.
	Slow bool
}

// Server is a running demo provider.
type Server struct {
	opts          Options
	listener      net.Listener
	http          *http.Server
	quit          chan struct{}
	once          sync.Once
	served        chan struct{}
	stopAfterFunc func() bool
}

// Start starts a Server, which serves until Close is called or ctx ends.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if err := checkLoopback(o.Addr); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("starting the demo model: %w", err)
	}
	s := &Server{opts: o, listener: listener, quit: make(chan struct{}), served: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("GET /v1/models", models)
	s.http = &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listener) // ends with Close
	}()
	s.stopAfterFunc = context.AfterFunc(ctx, func() { _ = s.stop() })
	return s, nil
}

// checkLoopback refuses an address, host:port, that is not loopback.
func checkLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("starting the demo model: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("starting the demo model: %s is not a loopback address, and the demo has no authentication", host)
	}
	return nil
}

// URL returns the base URL, with /v1.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/v1" }

// Close cancels requests in progress and stops the server. It may be called again.
func (s *Server) Close() error {
	s.stopAfterFunc()
	return s.stop()
}

// stop closes the listener and all connections, once, and waits until the server has stopped accepting.
func (s *Server) stop() error {
	var err error
	s.once.Do(func() {
		close(s.quit)
		err = s.http.Close()
		<-s.served
	})
	return err
}

// maxRequest bounds a request's body, in bytes.
const maxRequest = 64 << 20

// chat handles POST /v1/chat/completions.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var req openai.ChatCompletionRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		respondError(w, http.StatusRequestEntityTooLarge, "the request is over 64 MiB")
		return
	case err != nil:
		return // the client has disconnected
	}
	if err := json.Unmarshal(body, &req); err != nil {
		respondError(w, http.StatusBadRequest, "the request is not a chat completion: "+err.Error())
		return
	}
	if !req.Stream {
		respondError(w, http.StatusBadRequest, "the demo model only streams; set stream")
		return
	}
	s.stream(w, r, reply{request: req, step: parseRequest(req).nextStep(), prompt: len(body), created: time.Now().Unix()})
}

// respondError writes an error response in OpenAI's format.
func respondError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(openai.ErrorResponse{
		Error: &openai.APIError{Message: message, Type: "invalid_request_error"},
	})
}

func models(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"demo","object":"model","owned_by":"everturn"}]}`)
}

// stream sends the events of the reply, with a pause after each. It stops if the client disconnects or the server
// stops.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, out reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	events := out.events()
	pause := s.pause(len(events))
	control := http.NewResponseController(w)
	for _, e := range events {
		b, err := json.Marshal(e)
		if err != nil {
			return // unreachable: strings and numbers always marshal
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil || control.Flush() != nil || !s.wait(r.Context(), pause) {
			return
		}
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n") // the client may have disconnected
}

// The pace of a slow answer (Options.Slow): the pause after each word, and the bounds of the whole answer's duration.
const (
	slowWord  = 150 * time.Millisecond
	slowLeast = 10 * time.Second
	slowMost  = 25 * time.Second
)

// pause returns the pause after each of the n events of an answer.
func (s *Server) pause(n int) time.Duration {
	if !s.opts.Slow || n == 0 {
		return s.opts.Delay
	}
	each := time.Duration(n)
	return min(max(slowWord, slowLeast/each), slowMost/each)
}

// wait waits for d. It returns false if ctx ended or the server stopped first.
func (s *Server) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.quit:
	}
	return false
}
