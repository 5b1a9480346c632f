package netguard

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"github.com/everturn/everturn/internal/loopback"
)

// Guard decides to which addresses the requests for one configured URL may go. It checks each address when it is
// dialled, because an attacker's name server can answer two lookups of a name differently: with an address of this
// machine, of its private network, or of a cloud's credential service.
type Guard struct {
	endpoint *url.URL
	networks []netip.Prefix // private networks that the operator allowed
	loopback bool           // the URL itself names this machine
	// safe is a net.Dialer.Control function. It refuses addresses that are not public, except those that options allows.
	safe func(network, address string, c syscall.RawConn) error
	// Resolver replaces the system's; for tests.
	Resolver *net.Resolver
}

// New returns the guard for a URL. The URL must be absolute and use https; http is allowed on loopback, and if networks
// are named. networks, in CIDR notation, are the private networks in which the host may be. An error continues a
// sentence that begins with the name of the URL.
func New(raw string, networks []string) (*Guard, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, errors.New("is not absolute: write https://host/path")
	}
	g := &Guard{endpoint: u, loopback: loopback.Host(u.Hostname())}
	for _, n := range networks {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return nil, fmt.Errorf("has the network %q, which is not in CIDR notation: write it as 10.0.0.0/8", n)
		}
		g.networks = append(g.networks, p.Masked())
	}
	plainAllowed := u.Scheme == "http" && (g.loopback || len(networks) > 0)
	if u.Scheme != "https" && !plainAllowed {
		return nil, fmt.Errorf("%s://%s is not https, and plain http is for loopback and for the networks that are named",
			u.Scheme, u.Host)
	}
	g.safe = ssrf.New(g.options()...).Safe
	return g, nil
}

// options returns the exceptions for safe: the networks that the operator named, and loopback if the URL names it.
// Every other address that is not public by the IANA's registries is refused.
func (g *Guard) options() []ssrf.Option {
	var v4, v6 []netip.Prefix
	allowed := slices.Clip(g.networks) // so that append does not change g.networks
	if g.loopback {
		allowed = append(allowed, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	}
	for _, p := range allowed {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return []ssrf.Option{ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)}
}

// maxHeaderBytes bounds the header of a response.
const maxHeaderBytes = 64 << 10

// Transport returns a new HTTP transport that dials only addresses that the guard allows. It uses no proxy, because the
// guard would then check the proxy's address. It uses neither HTTP/2 nor compression: the caller counts bytes as it
// reads bodies, which never contain HTTP/2 frames and empty compressed blocks.
func (g *Guard) Transport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: g.control, Resolver: g.Resolver}
	return &http.Transport{
		DialContext:            dialer.DialContext, // HTTP/2 would then need ForceAttemptHTTP2
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        time.Minute,
		MaxIdleConns:           8,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
	}
}

// azureHost is the address under which a virtual machine in Azure reaches its host, which serves certificates and
// configuration to it. The IANA's registries count it as public.
// https://learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
var azureHost = netip.AddrFrom4([4]byte{168, 63, 129, 16})

// control implements net.Dialer.Control: it refuses to dial an address to which the guard's requests must not go.
func (g *Guard) control(network, address string, c syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("reading the address dialled: %w", err)
	}
	addr := to.Addr().Unmap().WithZone("")
	subject := describeAddress(g.endpoint.Hostname(), addr)
	switch {
	case addr.IsLoopback() && !g.loopback && !g.inNetworks(addr):
		return fmt.Errorf("%s is this machine: that is refused unless the URL itself says localhost", subject)
	case !addr.IsLoopback() && g.loopback:
		return fmt.Errorf("%s is not this machine: name the host that is meant", subject)
	case g.endpoint.Scheme == "http" && !g.loopback && !g.inNetworks(addr):
		return fmt.Errorf("%s is outside of the networks that are named: plain http is refused there", subject)
	}
	notPublic := g.safe(network, address, c) != nil || addr == azureHost && !g.inNetworks(addr)
	if notPublic {
		return fmt.Errorf("%s is not on the public internet: name its network in networks if that is meant", subject)
	}
	return nil
}

// describeAddress returns the beginning of a message about addr: the host alone if it is the address itself, or the
// host and the address to which it resolves.
func describeAddress(host string, addr netip.Addr) string {
	if literal, err := netip.ParseAddr(host); err == nil && literal.Unmap().WithZone("") == addr {
		return host
	}
	return fmt.Sprintf("%s points to %s, which", host, addr)
}

// inNetworks reports whether addr is in one of the networks that the operator named.
func (g *Guard) inNetworks(addr netip.Addr) bool {
	for _, p := range g.networks {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// CheckHost returns an error if u has another scheme or host than the configured URL. Such a URL may come from a
// redirect or, over SSE, from the server, which names the URL for calls. The error continues a sentence, such as
// "redirect".
func (g *Guard) CheckHost(u *url.URL) error {
	if u.Scheme != g.endpoint.Scheme || u.Host != g.endpoint.Host {
		return fmt.Errorf("to %s://%s is not followed: configure that address if it is right", u.Scheme, u.Host)
	}
	return nil
}
