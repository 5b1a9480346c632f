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

// newHTTPDialer returns the dialer of a server with a URL. Requests go where g allows, and redact learns access tokens.
func newHTTPDialer(s Server, g *netguard.Guard, opts Options, total *totals, redact redactor) (*httpDialer, error) {
	d := &httpDialer{server: s, guard: g, opts: opts, total: total, issued: &issued{redact: redact}}
	var err error
	if s.OAuth.TokenURL != "" {
		d.tokens, err = newTokens(s, redact)
	}
	return d, err
}

// dial prepares a link with its own HTTP client. It sends nothing yet: the handshake sends the first request. It
// ignores the tenant, which an HTTP server learns from each call's metadata.
func (d *httpDialer) dial(context.Context, string) (*link, error) {
	base := d.guard.Transport()
	var transport http.RoundTripper = base
	if d.tokens != nil {
		transport = &bearer{base: base, tokens: d.tokens}
	}
	m := newMeter(d.server.ID, d.total, d.opts.MaxFrameBytes)
	transport = &headerRoundTripper{base: transport, dialer: d, meter: m}
	client := &http.Client{Transport: transport, CheckRedirect: d.checkRedirect}
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
	return &link{transport: kept, meter: m, versions: versions, stop: stop, tail: noText, fate: noText}, nil
}

// transport returns the SDK's transport for the server's kind, SSE or streamable HTTP, which sends with client.
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

// keptTransport keeps the connection that Connect opened, so that the dialer can close it. The SDK does not close it if
// a handshake fails halfway.
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

// close closes the connection, which ends the session at the server. It waits at most closeBound for the server's
// response. It does nothing if there is no connection.
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

// RoundTrip implements http.RoundTripper. It refuses requests to other hosts and requests over a bound, and counts the
// response's body against the bounds as the SDK reads it.
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
	s.events = t.limitBody(resp, req.Method)
	resp.Body = &meteredBody{ReadCloser: resp.Body, stream: s, release: release}
	return resp, nil
}

// limitBody limits the size of a response's body, and reports whether the body is an event stream. An event stream has
// no limit, because each of its events is bounded separately. A JSON response is limited to the size of one message,
// any other body to maxRefusal. limitBody replaces the Content-Type header with the plain media type, so that the SDK
// reads the body as the same kind.
func (t *headerRoundTripper) limitBody(resp *http.Response, method string) (events bool) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	resp.Header["Content-Type"] = []string{kind}
	limit, ok := int64(maxRefusal), resp.StatusCode >= 200 && resp.StatusCode < 300
	// The SDK takes the response to an SSE transport's GET for an event stream, whatever its media type.
	sseGet := method == http.MethodGet && t.dialer.server.Transport == TransportSSE
	switch {
	case ok && (kind == "text/event-stream" || sseGet):
		return true
	case ok && kind == "application/json":
		limit = int64(t.dialer.opts.MaxFrameBytes)
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, limit) // it fails at the limit, so a cut body never seems complete
	return false
}

// roundTrip sends the request. If the request carries a tool call, it records in the call's state whether any byte was
// sent, and whether the server refused the call unread. It does not send a call that was abandoned.
func (t *headerRoundTripper) roundTrip(req *http.Request) (*http.Response, error) {
	state := callStateOf(req.Context())
	if state == nil || req.Method != http.MethodPost { // no call, or a GET that resumes the stream of a call sent earlier
		return t.base.RoundTrip(t.withHeaders(req.Context(), req))
	}
	allowed, first := state.beginSend()
	if !allowed {
		return nil, context.Canceled
	}
	again := !first && state.refused.Swap(nil) != nil // a refused call, sent again with a new access token
	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { wrote.Store(true) }}
	resp, err := t.base.RoundTrip(t.withHeaders(httptrace.WithClientTrace(req.Context(), trace), req))
	switch {
	case err != nil && first && !wrote.Load():
		state.unsend()
	// After any other repetition, such as a redirect, a refusal says nothing about the request before it.
	case err == nil && (first || again):
		state.refused.Store(refusedUnread(resp))
	}
	return resp, err
}

// withHeaders returns a copy of the request with the operator's headers. They cannot leak, because RoundTrip sends
// requests to the server's own host only.
func (t *headerRoundTripper) withHeaders(ctx context.Context, req *http.Request) *http.Request {
	req = req.Clone(ctx)
	for name, value := range t.dialer.server.Headers {
		req.Header.Set(name, value)
	}
	return req
}

// sseTransport keeps the event stream of an SSE server open after the context of Connect has ended. The SDK's transport
// alone would end the stream with that context.
type sseTransport struct{ inner *sdk.SSEClientTransport }

// Connect implements sdk.Transport. ctx bounds connecting only.
func (t *sseTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, end)
	conn, err := t.inner.Connect(life)
	if !unhook() && err == nil { // ctx ended just now, and with it the stream
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

// checkRedirect implements http.Client.CheckRedirect: it refuses too many redirects, and redirects to another scheme or
// host than the configured ones. via holds the requests made already.
func (d *httpDialer) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || len(via) > maxCallRedirects && callStateOf(req.Context()) != nil {
		return errors.New("too many redirects")
	}
	if err := d.guard.CheckHost(req.URL); err != nil {
		return fmt.Errorf("redirect %w", err)
	}
	return nil
}
