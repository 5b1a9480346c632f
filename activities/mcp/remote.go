package mcp

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/everturn/everturn/activities/mcp/netguard"
)

// httpDialer connects to the server over streamable HTTP or SSE.
type httpDialer struct {
	server Server
	guard  *netguard.Guard
	opts   Options
	total  *totals
	tokens *tokens // nil: without OAuth
	issued *issued // tokens that the server's Login returned
}

func newHTTPDialer(s Server, g *netguard.Guard, opts Options, total *totals, redact redactor) (*httpDialer, error) {
	d := &httpDialer{server: s, guard: g, opts: opts, total: total, issued: &issued{redact: redact}}
	var err error
	if s.OAuth.TokenURL != "" {
		d.tokens, err = newTokens(s, redact)
	}
	return d, err
}

func (d *httpDialer) dial(context.Context, string) (*link, error) {
	base := d.guard.Transport()
	var way http.RoundTripper = base
	if d.tokens != nil {
		way = &bearer{base: base, tokens: d.tokens}
	}
	m := newMeter(d.server.ID, d.total, d.opts.MaxFrameBytes)
	way = &headerRoundTripper{base: way, dialer: d, meter: m}
	client := &http.Client{Transport: way, CheckRedirect: d.checkRedirect}
	kept := &keptTransport{inner: d.transport(client)}
	stop := func() error {
		defer base.CloseIdleConnections()
		return kept.close()
	}
	m.onDrop(func() { _ = stop() })
	versions := []string{versionLatest, versionLegacy}
	if d.server.Transport == TransportSSE {
		versions = versions[1:] // the newest protocol does not support SSE
	}
	return &link{transport: kept, meter: m, versions: versions, stop: stop, tail: silent, fate: silent}, nil
}

func (d *httpDialer) transport(client *http.Client) sdk.Transport {
	if d.server.Transport == TransportSSE {
		return &sseTransport{&sdk.SSEClientTransport{
			Endpoint: d.server.URL, HTTPClient: client, MaxEventSize: d.opts.MaxFrameBytes,
		}}
	}
	t := &sdk.StreamableClientTransport{
		Endpoint: d.server.URL, HTTPClient: client, MaxRetries: 2, MaxEventSize: d.opts.MaxFrameBytes,
	}
	if d.server.Login != nil {
		t.OAuthHandler = loginHandler{d.server.Login, d.issued}
	}
	return t
}

// keptTransport keeps its connection, because the SDK does not close it if a handshake fails halfway.
type keptTransport struct {
	inner sdk.Transport
	mu    sync.Mutex
	conn  sdk.Connection
}

// Connect implements sdk.Transport. It returns the connection unwrapped, because the SDK looks for more methods on it.
func (t *keptTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.inner.Connect(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.conn = conn
	}
	return conn, err
}

// close ends the session with the server, and waits at most closeBound for the server to respond.
func (t *keptTransport) close() error {
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	if conn == nil {
		return nil
	}
	if !within(closeBound, func() { _ = conn.Close() }) {
		return fmt.Errorf("ending the session took more than %s", closeBound)
	}
	return nil
}

// headerRoundTripper adds the operator's headers, tracks whether a call was sent, and enforces the connection's bounds.
type headerRoundTripper struct {
	base   http.RoundTripper
	dialer *httpDialer
	meter  *meter
}

// RoundTrip implements http.RoundTripper.
func (t *headerRoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.dialer.guard.CheckHost(req.URL); err != nil { // an SSE server chooses the URL for calls
		closeBody(req)
		return nil, fmt.Errorf("a request %w", err)
	}
	admitted, release, err := t.meter.admit(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := t.roundTrip(admitted)
	if err != nil {
		release()
		return nil, err
	}
	s := newStream(admitted.Context(), t.meter)
	s.events = t.bound(resp, req.Method)
	resp.Body = &meteredBody{ReadCloser: resp.Body, stream: s, release: release}
	return resp, nil
}

// bound bounds the body of a response, unless it is an event stream, whose events are bounded one by one. It decides
// which of the two it is, and leaves only the media type that it decided on in the header.
func (t *headerRoundTripper) bound(resp *http.Response, method string) (events bool) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	resp.Header["Content-Type"] = []string{kind}
	limit, ok := int64(maxRefusal), resp.StatusCode >= 200 && resp.StatusCode < 300
	switch {
	case ok && (kind == "text/event-stream" || method == http.MethodGet && t.dialer.server.Transport == TransportSSE):
		return true // the SDK ignores the media type of the stream that a GET opens over SSE
	case ok && kind == "application/json":
		limit = int64(t.dialer.opts.MaxFrameBytes)
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, limit) // so that a cut body is never taken for a complete one
	return false
}

// roundTrip sends the request and records whether the call that it carries, if any, was sent or refused.
func (t *headerRoundTripper) roundTrip(req *http.Request) (*http.Response, error) {
	st := callStateOf(req.Context())
	if st == nil || req.Method != http.MethodPost { // a GET resumes the stream of a call sent earlier
		return t.base.RoundTrip(t.withHeaders(req.Context(), req))
	}
	allowed, first := st.send()
	if !allowed {
		return nil, context.Canceled
	}
	again := !first && st.refused.Swap(false) // repeated after a login that the refusal asked for
	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { wrote.Store(true) }}
	resp, err := t.base.RoundTrip(t.withHeaders(httptrace.WithClientTrace(req.Context(), trace), req))
	switch {
	case err != nil && first && !wrote.Load():
		st.unsend()
	case err == nil && (first || again) && refusedUnread(resp):
		st.refused.Store(true)
	}
	return resp, err
}

// withHeaders adds the operator's headers. They cannot leak, because requests go to the server's own host only.
func (t *headerRoundTripper) withHeaders(ctx context.Context, req *http.Request) *http.Request {
	req = req.Clone(ctx)
	for name, value := range t.dialer.server.Headers {
		req.Header.Set(name, value)
	}
	return req
}

// sseTransport detaches the stream of an SSE server from the context of Connect: the SDK's transport would end the
// stream with that context.
type sseTransport struct{ inner *sdk.SSEClientTransport }

// Connect implements sdk.Transport.
func (t *sseTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, end)
	conn, err := t.inner.Connect(life)
	if !unhook() && err == nil {
		_ = conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, err
	}
	return &sseConn{Connection: conn, end: end}, nil
}

type sseConn struct {
	sdk.Connection
	end context.CancelFunc
}

// Close closes the connection and ends the stream.
func (c *sseConn) Close() error {
	defer c.end()
	return c.Connection.Close()
}

// Bounds on redirects, which are followed on the same host only. A server may act on a call before it redirects it.
const (
	maxRedirects     = 3
	maxCallRedirects = 1
)

// checkRedirect follows redirects to the configured scheme and host only, whatever address they resolve to.
func (d *httpDialer) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || len(via) > maxCallRedirects && callStateOf(req.Context()) != nil {
		return errors.New("too many redirects")
	}
	if err := d.guard.CheckHost(req.URL); err != nil {
		return fmt.Errorf("redirect %w", err)
	}
	return nil
}
