package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxRedirects bounds redirects, which are followed on the same host only.
const maxRedirects = 3

// parseEndpoint checks the server's URL: absolute, https, or http on loopback.
func parseEndpoint(s Server) (*url.URL, error) {
	if s.URL == "" {
		return nil, fmt.Errorf("MCP server %q: set its URL (or a command)", s.ID)
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("MCP server %q: its URL is not absolute: write https://host/path", s.ID)
	}
	switch {
	case u.Scheme == "https":
		return u, nil
	case u.Scheme == "http" && loopbackName(u.Hostname()):
		return u, nil
	}
	return nil, fmt.Errorf("MCP server %q: %s://%s is not https, and plain http is for loopback only", s.ID, u.Scheme, u.Host)
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// httpDialer reaches the server over streamable HTTP.
type httpDialer struct {
	server   Server
	endpoint *url.URL
	opts     Options
}

func (d *httpDialer) dial(context.Context) (*link, error) {
	base := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, Control: d.control}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     time.Minute,
		MaxIdleConns:        8,
		ForceAttemptHTTP2:   true,
	}
	client := &http.Client{
		Transport:     &headerRoundTripper{base: base, dialer: d},
		CheckRedirect: d.checkRedirect,
	}
	t := &mcp.StreamableClientTransport{
		Endpoint: d.server.URL, HTTPClient: client, MaxRetries: 2, MaxEventSize: d.opts.MaxFrameBytes,
	}
	kept := &keptTransport{inner: t}
	stop := func() error {
		defer base.CloseIdleConnections()
		return kept.close()
	}
	return &link{transport: kept, versions: []string{versionLatest, versionLegacy}, stop: stop, tail: silent, fate: silent}, nil
}

// keptTransport keeps its connection, which the SDK forgets to close where a handshake fails half way.
type keptTransport struct {
	inner mcp.Transport
	mu    sync.Mutex
	conn  mcp.Connection
}

// Connect implements mcp.Transport. The connection is handed on as it is: the SDK looks for more methods on it.
func (t *keptTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.inner.Connect(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.conn = conn
	}
	return conn, err
}

// close says goodbye to the server, but does not wait long for its answer.
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

// control refuses, at the moment of dialling, to speak plain http with anything but loopback: a name can be made to
// point elsewhere.
func (d *httpDialer) control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("reading the address dialled: %w", err)
	}
	if d.endpoint.Scheme == "http" && !loopbackName(host) {
		return fmt.Errorf("%s points to %s, which is not loopback: plain http is refused", d.endpoint.Host, host)
	}
	return nil
}

func (d *httpDialer) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if req.URL.Scheme != d.endpoint.Scheme || req.URL.Host != d.endpoint.Host {
		return fmt.Errorf("redirect to %s://%s is not followed: configure that address if it is right", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// headerRoundTripper adds the operator's headers, notes what becomes of a call, and bounds bodies.
type headerRoundTripper struct {
	base   http.RoundTripper
	dialer *httpDialer
}

// RoundTrip implements http.RoundTripper.
func (t *headerRoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.noting(req)
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") { // those are bounded event by event
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: int64(t.dialer.opts.MaxFrameBytes)}
	}
	return resp, err
}

// noting sends the request and keeps the books of the call that it carries, if any.
func (t *headerRoundTripper) noting(req *http.Request) (*http.Response, error) {
	st := callStateOf(req.Context())
	if st == nil || req.Method != http.MethodPost { // a GET takes up the stream of a call that was sent long ago
		return t.base.RoundTrip(t.withHeaders(req.Context(), req))
	}
	allowed, first := st.send()
	if !allowed {
		return nil, context.Canceled
	}
	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { wrote.Store(true) }}
	resp, err := t.base.RoundTrip(t.withHeaders(httptrace.WithClientTrace(req.Context(), trace), req))
	switch {
	case err != nil && first && !wrote.Load():
		st.unsend()
	case err == nil && first && refusedUnread(resp.StatusCode):
		st.refused.Store(true)
	}
	return resp, err
}

// withHeaders adds the operator's headers where the request goes to the server's own host.
func (t *headerRoundTripper) withHeaders(ctx context.Context, req *http.Request) *http.Request {
	req = req.Clone(ctx)
	if req.URL.Host == t.dialer.endpoint.Host {
		for name, value := range t.dialer.server.Headers {
			req.Header.Set(name, value)
		}
	}
	return req
}

// refusedUnread are the statuses with which a server says that it did not act on the request (RFC 9110; for 404, the
// MCP transport: the session is gone).
func refusedUnread(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests:
		return true
	}
	return false
}

// boundedBody fails where a body goes over its limit, so that a cut body is never taken for a whole one.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errors.New("the answer is over the limit of one message")
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return 0, errors.New("the answer is over the limit of one message")
	}
	return n, err
}
