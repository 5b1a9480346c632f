package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
)

// Options configure a server.
type Options struct {
	// Client is connected to Temporal and the journal. The server derives those of the callers' tenants from it.
	Client *client.Client
	Config config.Config
	Log    *slog.Logger // gets a line for each request, without its content
}

// Server answers requests over HTTP. It is safe for concurrent use.
type Server struct {
	Options
	callers *callers
	hosts   hosts
	handler http.Handler
	// document is the OpenAPI document.
	document object
	// stopping ends the streams when the server stops.
	stopping context.Context
}

// The times of one request. A stream has no end of its own: see stream.
const (
	headerWithin = 10 * time.Second
	bodyWithin   = time.Minute
	answerWithin = 2 * time.Minute
	idleWithin   = 2 * time.Minute
	// drainWithin is how long a stopping server waits for requests in progress.
	drainWithin = 10 * time.Second
)

// maxHeader bounds the headers of a request, in bytes.
const maxHeader = 64 << 10

// New returns a server. Streams end with ctx, too.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Options: o, callers: newCallers(o.Config.HTTP), stopping: ctx}
	var err error
	if s.hosts, err = newHosts(o.Config.HTTP); err != nil {
		return nil, err
	}
	if s.document, err = describe(routes); err != nil {
		return nil, err
	}
	origins := http.NewCrossOriginProtection()
	for _, origin := range o.Config.HTTP.AllowedOrigins {
		if err := origins.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("http.allowed_origins: %w", err)
		}
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		crossOrigin.write(w)
	}))
	mux := http.NewServeMux()
	for _, rt := range routes {
		mux.Handle(rt.method+" "+rt.path, s.handle(rt))
	}
	if err := s.registerPage(mux); err != nil {
		return nil, err
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		(&problem{status: http.StatusNotFound, kind: kindNotFound, code: "no_route", message: fmt.Sprintf(
			"there is no %s %.200s: GET /openapi.json lists the routes", r.Method, r.URL.Path)}).write(w)
	})
	s.handler = s.logged(s.hosts.checked(origins.Handler(mux)))
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers requests on l until ctx ends. Requests that are in progress then get ten seconds; streams end at once,
// and their readers resume on another server.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	s, err := New(ctx, o)
	if err != nil {
		return err
	}
	server := s.http()
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
		defer cancel()
		drained <- server.Shutdown(drain)
	})
	if cert := o.Config.HTTP.TLSCert; cert != "" {
		pair := &keyPair{cert: cert, key: o.Config.HTTP.TLSKey}
		if _, err := pair.get(nil); err != nil {
			return err
		}
		server.TLSConfig = &tls.Config{GetCertificate: pair.get, MinVersion: tls.VersionTLS12}
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serving HTTP: %w", err)
	}
	return <-drained
}

// http returns the HTTP server with its limits.
func (s *Server) http() *http.Server {
	return &http.Server{Handler: s, ReadHeaderTimeout: headerWithin, ReadTimeout: bodyWithin, WriteTimeout: answerWithin,
		IdleTimeout: idleWithin, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)}
}

// handle returns the handler of a route: it authenticates the caller, applies the limits and sends errors.
func (s *Server) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{server: s, w: w, r: r, status: rt.status}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		err := s.authorize(c, rt)
		if err == nil {
			note(w, c.token.Principal, c.token.Tenant)
			err = rt.serve(c)
		}
		if err == nil {
			return
		}
		p := asProblem(err)
		if p.status >= http.StatusInternalServerError {
			s.Log.Error("request failed", "request", w.Header().Get(headerRequestID), "route", rt.path, "error", err)
		}
		if begun(w) {
			panic(http.ErrAbortHandler) // the connection ends, so that the caller does not take the part for the whole
		}
		p.write(w)
	})
}

// headerRequestID names a request, in the response and in the log.
const headerRequestID = "X-Request-Id"

// logged logs each request when it has ended, and gives it an ID.
func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := "req-" + strings.ToLower(rand.Text()[:16])
		w.Header().Set(headerRequestID, id)
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		seen := &seen{ResponseWriter: w}
		began := time.Now()
		defer func() {
			s.Log.Info("request", "request", id, "method", r.Method, "route", r.Pattern, "status", seen.status,
				"bytes", seen.bytes, "duration_ms", time.Since(began).Milliseconds(), "principal", seen.principal,
				"tenant", seen.tenant, "remote", r.RemoteAddr)
		}()
		next.ServeHTTP(seen, r)
	})
}

// seen is a response whose status and size are counted for the log.
type seen struct {
	http.ResponseWriter
	status            int
	bytes             int64
	principal, tenant string
}

// note keeps the caller for the log.
func note(w http.ResponseWriter, principal, tenant string) {
	if s, ok := w.(*seen); ok {
		s.principal, s.tenant = principal, tenant
	}
}

// begun reports whether a part of the response is sent.
func begun(w http.ResponseWriter) bool {
	s, ok := w.(*seen)
	return ok && s.status != 0
}

// Unwrap serves http.ResponseController.
func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (s *seen) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *seen) Write(b []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	n, err := s.ResponseWriter.Write(b)
	s.bytes += int64(n)
	return n, err
}
