package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/everturn/everturn/tests/loopback"
)

// link is a proxy in front of an address. A schedule breaks the network through links.
type link struct {
	proxy *toxiproxy.Proxy
	n     int
}

var proxies = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())

func newLink(name, upstream string) (*link, error) {
	at, err := loopback.Address() // it is closed and opened again
	if err != nil {
		return nil, err
	}
	p := toxiproxy.NewProxy(proxies, name, at, upstream)
	if err := p.Start(); err != nil {
		return nil, fmt.Errorf("starting the proxy %s: %w", name, err)
	}
	return &link{proxy: p}, nil
}

func (l *link) address() string { return l.proxy.Listen }

// in returns the URL with the link's address in place of its own.
func (l *link) in(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	u.Host = l.address()
	return u.String(), nil
}

// down refuses new connections and breaks existing ones, until up.
func (l *link) down() { l.proxy.Stop() }

// connections returns how many clients are connected through the link now, by the kernel's count.
func (l *link) connections() (int, error) {
	host, port, err := net.SplitHostPort(l.address())
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0, err
	}
	ip := net.ParseIP(host).To4()
	if ip == nil {
		return 0, fmt.Errorf("%s is no IPv4 address", host)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	// Local address, remote address, state; the address's bytes are the machine's, and 01 is an established connection.
	local, established := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip), n), 0
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == local && f[3] == "01" {
			established++
		}
	}
	return established, err
}

func (l *link) up() error { return l.proxy.Start() }

// toxic puts a toxic on the link in one direction ("upstream": towards the server). The returned function removes it.
func (l *link) toxic(kind, stream string, attributes map[string]any) (remove func() error, err error) {
	l.n++
	name := fmt.Sprintf("%s-%d", kind, l.n)
	b, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": stream, "toxicity": 1.0,
		"attributes": attributes})
	if err != nil {
		return nil, err
	}
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(string(b))); err != nil {
		return nil, fmt.Errorf("adding the toxic %s: %w", kind, err)
	}
	return func() error { return l.proxy.Toxics.RemoveToxic(context.Background(), name) }, nil
}
