package loopback

import (
	"io"
	"net"
	"sync"
)

// Proxy forwards connections to an address, and can reset all of them.
type Proxy struct {
	listener net.Listener
	upstream string
	mu       sync.Mutex
	clients  map[*net.TCPConn]bool
}

// NewProxy starts a proxy. Close ends it.
func NewProxy(upstream string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, upstream: upstream, clients: map[*net.TCPConn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(c.(*net.TCPConn))
		}
	}()
	return p, nil
}

// Address is the address on which the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Reset resets all connections. Clients can connect again.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.clients {
		_ = c.SetLinger(0) // the client gets a reset
		_ = c.Close()
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.Reset()
}

func (p *Proxy) pass(client *net.TCPConn) {
	p.mu.Lock()
	p.clients[client] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.clients, client)
		p.mu.Unlock()
		_ = client.Close()
	}()
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, client) // either side may end
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
