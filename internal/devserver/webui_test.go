package devserver

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a web page can do to a real server is tested in the package tests.

func TestTheUIsAddressIsNotToBeGuessed(t *testing.T) {
	seen := map[string]bool{}
	for range 20 {
		a, err := HiddenAddress()
		require.NoError(t, err)
		assert.True(t, a.IP.IsLoopback())
		assert.False(t, a.IP.Equal(net.IPv4(127, 0, 0, 1)), a)
		seen[a.IP.String()] = true
	}
	assert.Greater(t, len(seen), 18, "addresses repeat")
}

func TestTheUIIsServedUnderLocalNamesOnly(t *testing.T) {
	ui := onlyLocal(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"127.0.0.1:8233": 200, "localhost:9000": 200, "[::1]:8233": 200, "localhost": 200,
		"evil.example:8233": 403, "localhost.evil.example:8233": 403, "127.0.0.1.evil.example": 403, "192.0.2.1:8233": 403,
		"": 403,
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Host = host
		ui.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, host)
	}
}
