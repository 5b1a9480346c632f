package codecserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/internal/loopback"
)

// Options configure a server.
type Options struct {
	Keys      *codec.Keys
	Namespace string // the only namespace whose payloads are decrypted
	Auth      Auth
	// Origin is the origin of the Web UI. Requests from pages of other origins are refused. Programs send no origin.
	Origin string
	// AllowEncode also serves POST /encode, which the Web UI needs to send signals and to start workflows.
	AllowEncode     bool
	TLSCert, TLSKey string // files; empty means no TLS
	Log             *slog.Logger
}

// maxBodyBytes bounds a request's body. A page of a history from Temporal is at most 4 MiB, and base64 in JSON adds a
// third.
const maxBodyBytes = 16 << 20

// drainWithin bounds how long a stopping server waits for requests that are in progress.
const drainWithin = 5 * time.Second

// Serve serves requests on l until ctx ends. It returns an error if Auth.Anyone is set and l is not on a loopback
// address.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	if o.Auth.Anyone && !loopback.Address(l.Addr().String()) {
		return fmt.Errorf("everyone who reaches %s could decrypt: listen on 127.0.0.1, or set codec_server.token", l.Addr())
	}
	handler, err := Handler(ctx, o)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
		WriteTimeout: time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn)}
	stopped := make(chan error, 1) // receives the result of Shutdown, which may end after server.Serve has returned
	stop := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
		defer cancel()
		stopped <- server.Shutdown(drain)
	})
	if o.TLSCert != "" {
		err = server.ServeTLS(l, o.TLSCert, o.TLSKey)
	} else {
		err = server.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serving the codec: %w", err)
	}
	return <-stopped
}

// Handler returns the HTTP handler of the server: GET /healthz, POST /decode and, if o.AllowEncode is set, POST
// /encode.
func Handler(ctx context.Context, o Options) (http.Handler, error) {
	authenticate, err := o.Auth.verifier(ctx)
	if err != nil {
		return nil, err
	}
	s := &server{Options: o, authenticate: authenticate}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	paths := []string{"/decode"}
	if o.AllowEncode {
		paths = append(paths, "/encode")
	}
	for _, p := range paths {
		mux.HandleFunc("OPTIONS "+p, s.fromOrigin(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}))
		mux.HandleFunc("POST "+p, s.fromOrigin(s.serve))
	}
	return mux, nil
}

// server handles requests. authenticate returns the caller's name for the log.
type server struct {
	Options
	authenticate verify
}

// fromOrigin wraps next with the CORS headers that allow pages of the Web UI to read the response. It refuses
// requests from pages of other origins.
func (s *server) fromOrigin(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Origin")
		if origin := r.Header.Get("Origin"); origin != "" {
			if origin != s.Origin {
				s.refuse(w, r, "", http.StatusForbidden, "pages of this origin may not decrypt: set codec_server.origin")
				return
			}
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", s.Origin)
			h.Set("Access-Control-Allow-Methods", "POST")
			h.Set("Access-Control-Allow-Headers", "Authorization, Authorization-Extras, Content-Type, X-Namespace")
			h.Set("Access-Control-Max-Age", "600")
		}
		next(w, r)
	}
}

// serve authenticates a request, decodes or encodes its payloads, and logs the use.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	who, err := s.authenticate(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.refuse(w, r, "", http.StatusUnauthorized, err.Error())
		return
	}
	if namespace := r.Header.Get("X-Namespace"); namespace != s.Namespace {
		s.refuse(w, r, who, http.StatusForbidden, fmt.Sprintf("this server decrypts namespace %q only, and the header "+
			"X-Namespace says %q", s.Namespace, namespace))
		return
	}
	if r.ContentLength > maxBodyBytes {
		s.refuse(w, r, who, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request exceeds %d bytes", maxBodyBytes))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	w.Header().Set("Cache-Control", "no-store")
	seen := &audited{PayloadCodec: s.Keys.Payloads(s.Namespace)}
	converter.NewPayloadCodecHTTPHandler(seen).ServeHTTP(w, r)
	attrs := []any{"who", who, "what", r.URL.Path, "namespace", s.Namespace, "payloads", seen.payloads, "keys", seen.keys,
		"remote", r.RemoteAddr, "origin", r.Header.Get("Origin")}
	if seen.err != nil {
		attrs = append(attrs, "error", seen.err)
	}
	s.Log.Info("codec used", attrs...)
}

// refuse answers a request with an HTTP error and logs it. who is the caller's name, or "" if unknown.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, who string, code int, why string) {
	s.Log.Warn("codec refused", "who", who, "what", r.URL.Path, "code", code, "why", why, "remote", r.RemoteAddr,
		"origin", r.Header.Get("Origin"))
	http.Error(w, why, code)
}

// audited is the codec of one request. It collects the numbers, key IDs and error for the log.
type audited struct {
	converter.PayloadCodec
	payloads int
	keys     []string // at most 16 IDs, because the caller chooses them
	err      error
}

// Decode implements converter.PayloadCodec. It also counts the payloads and collects the IDs of their keys.
func (a *audited) Decode(list []*commonpb.Payload) (out []*commonpb.Payload, err error) {
	for _, p := range list {
		if id := string(p.GetMetadata()[codec.MetadataKeyID]); id != "" && !slices.Contains(a.keys, id) && len(a.keys) < 16 {
			a.keys = append(a.keys, fmt.Sprintf("%.20q", id))
		}
	}
	a.payloads = len(list)
	out, a.err = a.PayloadCodec.Decode(list)
	return out, a.err
}

// Encode implements converter.PayloadCodec. It also counts the payloads.
func (a *audited) Encode(list []*commonpb.Payload) (out []*commonpb.Payload, err error) {
	a.payloads = len(list)
	out, a.err = a.PayloadCodec.Encode(list)
	return out, a.err
}
