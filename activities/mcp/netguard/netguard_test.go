package netguard

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRequestsUseNeitherHTTP2NorCompression checks that neither HTTP/2 nor compression is used: HTTP/2 frames and empty
// compressed blocks cost time without reaching a body, whose bytes are counted.
func TestRequestsUseNeitherHTTP2NorCompression(t *testing.T) {
	var accepted atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		accepted.Store(r.Proto + r.Header.Get("Accept-Encoding"))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	g, err := New(s.URL, nil)
	require.NoError(t, err)
	transport := g.Transport()
	transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	transport.TLSClientConfig.NextProtos = nil
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := (&http.Client{Transport: transport}).Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "HTTP/1.1", accepted.Load())
}

func TestOnlyWhatTheOperatorMeansIsDialled(t *testing.T) {
	for _, c := range []struct {
		url, networks, address, refused string
	}{
		{"https://mcp.example", "", "93.184.215.14:443", ""},
		{"https://mcp.example", "", "[2606:2800:21f:cb07::1]:443", ""},
		{"https://mcp.example", "", "93.184.215.14:8443", ""},
		{"https://mcp.example", "", "10.1.2.3:443", "name its network in networks"},
		{"https://mcp.example", "", "192.168.1.1:443", "name its network in networks"},
		{"https://mcp.example", "", "169.254.169.254:443", "name its network in networks"},
		{"https://mcp.example", "", "[fd00:ec2::254]:443", "name its network in networks"},
		{"https://mcp.example", "", "168.63.129.16:443", "name its network in networks"},
		{"https://mcp.example", "", "[::ffff:168.63.129.16]:443", "name its network in networks"},
		{"https://mcp.example", "168.63.129.16/32", "168.63.129.16:443", ""},
		{"https://mcp.example", "", "[fe80::1%eth0]:443", "name its network in networks"},
		{"https://mcp.example", "", "[::ffff:10.1.2.3]:443", "name its network in networks"},
		{"https://mcp.example", "", "0.0.0.0:443", "name its network in networks"},
		{"https://mcp.example", "", "127.0.0.1:443", "which is this machine"},
		{"https://mcp.example", "", "[::1]:443", "which is this machine"},
		{"https://mcp.example", "", "[::ffff:127.0.0.1]:443", "which is this machine"},
		{"https://mcp.example", "10.0.0.0/8", "10.1.2.3:443", ""},
		{"https://mcp.example", "10.0.0.0/8", "93.184.215.14:443", ""},
		{"https://mcp.example", "10.0.0.0/8", "192.168.1.1:443", "name its network in networks"},
		{"https://mcp.example", "10.0.0.0/8", "127.0.0.1:443", "which is this machine"},
		{"https://mcp.example", "fd00::/8", "[fd12::1]:443", ""},
		{"http://mcp.internal", "10.0.0.0/8", "10.1.2.3:80", ""},
		{"http://mcp.internal", "10.0.0.0/8", "93.184.215.14:80", "plain http is refused"},
		{"http://localhost:9000", "", "127.0.0.1:9000", ""},
		{"http://localhost:9000", "", "[::1]:9000", ""},
		{"http://localhost:9000", "", "10.1.2.3:9000", "which is not this machine"},
		{"https://127.0.0.1", "", "93.184.215.14:443", "which is not this machine"},
	} {
		var networks []string
		if c.networks != "" {
			networks = []string{c.networks}
		}
		g, err := New(c.url, networks)
		require.NoError(t, err)
		network := "tcp4"
		if netip.MustParseAddrPort(c.address).Addr().Is6() {
			network = "tcp6"
		}
		err = g.control(network, c.address, nil)
		if c.refused == "" {
			assert.NoError(t, err, "%+v", c)
			continue
		}
		assert.ErrorContains(t, err, c.refused, "%+v", c)
	}
}
