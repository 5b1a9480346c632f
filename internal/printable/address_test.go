package printable

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAddressesAreShownWithoutWhatMayBeAKey(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.com":                                "https://example.com",
		"https://example.com/":                               "https://example.com/",
		"https://example.com:8443/api/v1/mcp":                "https://example.com:8443/api/v1/mcp",
		"https://example.com/v1beta/openai":                  "https://example.com/v1beta/openai",
		"https://example.com/v1/sk-canary/mcp":               "https://example.com/v1/hidden/mcp",
		"https://example.com/canary":                         "https://example.com/hidden",
		"https://example.com/v1/%63anary/mcp":                "https://example.com/v1/hidden/mcp",
		"https://example.com/mcp;canary":                     "https://example.com/hidden",
		"https://ann:canary@example.com/mcp":                 "https://hidden@example.com/mcp",
		"https://canary@example.com/mcp":                     "https://hidden@example.com/mcp",
		"https://example.com/mcp?key=canary&b=canary2":       "https://example.com/mcp?key=hidden&b=hidden",
		"https://example.com/mcp?canary":                     "https://example.com/mcp?hidden",
		"https://example.com/mcp#canary":                     "https://example.com/mcp",
		"https://example.com/mcp?key=${K}":                   "https://example.com/mcp?key=${K}",
		"https://example.com/${K}/mcp?key=canary${K}":        "https://example.com/${K}/mcp?key=hidden",
		"https://example.com/sk-canary-${K}/mcp":             "https://example.com/hidden/mcp",
		"https://example.com/mcp?a=canary/x&b=canary?c=${K}": "https://example.com/mcp?a=hidden&b=hidden",
		"https://[::1]:8080/mcp":                             "https://[::1]:8080/mcp",
		"/usr/bin/serve":                                     "",
		"https://example.com/%zz?key=canary":                 "",
		"":                                                   "",
	} {
		assert.Equal(t, want, Address(raw), raw)
		assert.NotContains(t, Address(raw), "canary")
	}
	for raw, want := range map[string]string{
		"postgres://ann:canary@db.example/x?a=1&password=canary": "postgres://ann:hidden@db.example/x?a=1&password=hidden",
		"HTTPS://ann@example.com/key?token=1#x":                  "HTTPS://ann@example.com/key?token=1#x",
		// Here PWD moves the host, and what looks like a password is a port.
		"http://127.0.0.1:80${PWD}@example.com":            "http://127.0.0.1:80${PWD}@example.com",
		"postgres://${USER:-?}&password=x@evil.example/db": "postgres://${USER:-?}&password=x@evil.example/db",
		"db.example:5432": "db.example:5432",
		"":                "",
	} {
		assert.Equal(t, want, WithoutPassword(raw))
	}
	segments, path := Hidden("https://example.com/v1/sk-canary/mcp?x=/y")
	assert.Equal(t, []string{"sk-canary"}, segments)
	assert.Equal(t, "/v1/sk-canary/mcp", path)
	segments, path = Hidden("https://example.com/v1/mcp")
	assert.Empty(t, segments)
	assert.Empty(t, path)
}
