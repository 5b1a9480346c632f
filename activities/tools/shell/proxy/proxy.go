package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everturn/everturn/activities/mcp/netguard"
	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/workflows/turn"
)

// The limits of one command.
const (
	maxConnections = 64      // at a time
	maxBytes       = 4 << 30 // of all connections, in both directions
	maxRefused     = 20      // named refusals
	maxHost        = 253     // bytes of a host name
	headerTimeout  = 30 * time.Second
	idleTimeout    = 5 * time.Minute
)

// Options say what may be reached.
type Options struct {
	// Hosts are patterns (see turn.HostRule), each with an optional port: "example.org", "*.example.org:8443". Without a
	// port, 80 and 443 are meant.
	Hosts []string
	// Networks are private networks in which hosts may be, in CIDR notation; for tests.
	Networks []string
	Resolver *net.Resolver // replaces the system's; for tests
}

// Check returns an error if a pattern is malformed. It continues a sentence.
func (o Options) Check() error {
	for _, h := range o.Hosts {
		host, _ := split(h)
		if _, err := path.Match(host, ""); err != nil || host == "" || len(host) > maxHost || strings.ContainsAny(h, "/@ ") {
			return fmt.Errorf("%q is no host: write example.org, *.example.org or example.org:8443", h)
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return fmt.Errorf("%q is an address: only names can be allowed", h)
		}
	}
	return nil
}

// split returns the host and the port of a pattern. The port may be empty.
func split(pattern string) (host, port string) {
	host, port, _ = strings.Cut(strings.ToLower(pattern), ":")
	return host, port
}

// lists reports whether a host may be reached at a port.
func (o Options) lists(host, port string) bool {
	return slices.ContainsFunc(o.Hosts, func(pattern string) bool {
		listed, at := split(pattern)
		return (at == port || at == "" && (port == "443" || port == "80")) &&
			(&turn.HostRule{Listed: []string{listed}}).ListsHost(host)
	})
}

// Proxy serves one command.
type Proxy struct {
	o       Options
	refusal func(host string) // called for each refused host once
	bytes   atomic.Int64
	open    chan struct{} // has one element for each connection

	mu      sync.Mutex // guards refused
	refused []string   // host and why
}

// New returns the proxy for one command. refusal, which may be nil, is called when it refuses a host for the first
// time.
func New(o Options, refusal func(host string)) *Proxy {
	if refusal == nil {
		refusal = func(string) {}
	}
	return &Proxy{o: o, refusal: refusal, open: make(chan struct{}, maxConnections)}
}

// Serve serves connections until the listener is closed, and then closes them.
func (p *Proxy) Serve(l net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends the tunnels
	server := &http.Server{Handler: p, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 64 << 10, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	_ = server.Serve(l) // the listener was closed
	_ = server.Close()
}

// Refused returns the hosts that were refused, each with the reason.
func (p *Proxy) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

// refuse answers that a host may not be reached, and remembers it.
func (p *Proxy) refuse(w http.ResponseWriter, host, why string) {
	text := turn.Truncate(host, maxHost) + " (" + why + ")"
	p.mu.Lock()
	isNew := !slices.Contains(p.refused, text) && len(p.refused) < maxRefused
	if isNew {
		p.refused = append(p.refused, text)
	}
	p.mu.Unlock()
	if isNew {
		p.refusal(text)
	}
	http.Error(w, "refused: "+text, http.StatusForbidden)
}

// ServeHTTP implements http.Handler: it makes a tunnel for CONNECT, and forwards requests for http URLs.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target := r.URL.Host
	if r.Method == http.MethodConnect {
		target = r.Host
	} else if r.URL.Scheme != "http" || target == "" {
		http.Error(w, "this is a proxy: it needs CONNECT, or the absolute URL of an http resource", http.StatusBadRequest)
		return
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		host, port = target, "80"
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	_, notName := netip.ParseAddr(strings.Trim(host, "[]"))
	switch {
	case notName == nil || loopback.Host(host) || strings.Trim(host, "0123456789.x") == "":
		p.refuse(w, host, "an address or this machine, not the name of a host")
		return
	case !p.o.lists(host, port):
		if port != "443" && port != "80" {
			host += ":" + port
		}
		p.refuse(w, host, "not in hosts of [sandbox]")
		return
	}
	select {
	case p.open <- struct{}{}:
		defer func() { <-p.open }()
	default:
		http.Error(w, fmt.Sprintf("the command has %d connections, the maximum", maxConnections), http.StatusTooManyRequests)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w, r, host, port)
		return
	}
	p.forward(w, r, host, port)
}

var errTooMuch = fmt.Errorf("the command has transferred %d GiB, the maximum", maxBytes>>30)

// dial connects to a host, at an address that the guard allows.
func (p *Proxy) dial(ctx context.Context, host, port string) (net.Conn, error) {
	guard, err := netguard.New("https://"+host, p.o.Networks)
	if err != nil {
		return nil, err
	}
	guard.Resolver = p.o.Resolver
	conn, err := guard.Transport().DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	return &counted{Conn: conn, proxy: p}, nil
}

// failed answers that a host could not be reached: because the guard refuses its address, or for another reason.
func (p *Proxy) failed(w http.ResponseWriter, host string, err error) {
	var dial *net.OpError
	var system *os.SyscallError
	var dns *net.DNSError
	// The guard's error is the only one of a dial that is none of the system.
	if errors.As(err, &dial) && dial.Op == "dial" && !dial.Timeout() && !errors.As(err, &system) && !errors.As(err, &dns) {
		p.refuse(w, host, "its address is this machine's, or one of a private network")
		return
	}
	http.Error(w, err.Error(), http.StatusBadGateway)
}

// tunnel connects the client with a host.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request, host, port string) {
	server, err := p.dial(r.Context(), host, port)
	if err != nil {
		p.failed(w, host, err)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	// The request's context no longer ends with the client's connection, but with the proxy.
	stop := context.AfterFunc(r.Context(), func() { client.Close(); server.Close() })
	defer stop()
	_ = client.SetDeadline(time.Time{})
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var copies sync.WaitGroup
	copies.Go(func() { relay(server, buffered.Reader) })
	copies.Go(func() { relay(client, server) })
	copies.Wait()
}

// relay copies from one side to the other, and then ends what the other side reads.
func relay(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = to.Close() // the copy in the other direction then ends, too
	}
}

// forward sends a request on and answers with its response.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, host, port string) {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx, host, port) }}
	(&httputil.ReverseProxy{Transport: transport,
		Rewrite:      func(out *httputil.ProxyRequest) { out.Out.Host = out.In.URL.Host },
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { p.failed(w, host, err) },
	}).ServeHTTP(w, r)
}

// counted is a connection whose bytes count towards maxBytes.
type counted struct {
	net.Conn
	proxy *Proxy
}

func (c *counted) count(n int, err error) (int, error) {
	if c.proxy.bytes.Add(int64(n)) > maxBytes {
		return n, errTooMuch
	}
	return n, err
}

func (c *counted) Read(b []byte) (int, error) { return c.count(c.Conn.Read(b)) }

func (c *counted) Write(b []byte) (int, error) { return c.count(c.Conn.Write(b)) }

func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}
