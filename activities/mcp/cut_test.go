package mcp

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/redact"
)

// cutKey is a secret of a server. No part of it may remain if a text is cut within it.
const cutKey = "Zx9-Qv7.Kp3_Lm5/Tw2+Yh8=Rn4"

// TestACutOfStderrLeavesNoEndOfASecret covers the end of stderr, which is cut twice: by the buffer that keeps it, and
// for the message that quotes it.
func TestACutOfStderrLeavesNoEndOfASecret(t *testing.T) {
	for _, kept := range []int{512, 8 << 10} {
		pad := strings.Repeat("p", min(kept, 1024)-len(cutKey)+1)
		h, err := New(Options{StderrTailBytes: kept, Servers: []Server{{
			ID: "srv", Command: "/bin/sh", Args: []string{"-c", `printf %s "before ${API_KEY}` + pad + `" >&2; exit 3`},
			Env: map[string]string{"API_KEY": cutKey}, ConnectTimeout: 10 * time.Second,
		}}})
		require.NoError(t, err)
		_ = h.Catalogues(t.Context())
		output := h.Health()[0].Stderr + h.Health()[0].LastError
		require.NoError(t, h.Close())
		assert.Contains(t, output, "pppp")
		assert.NotContains(t, output, cutKey[1:])
	}
}

// TestALineOfALongTextLeavesNoBeginningOfASecret covers long texts, of which only the beginning is searched.
func TestALineOfALongTextLeavesNoBeginningOfASecret(t *testing.T) {
	r := newRedactor(Server{Headers: map[string]string{"X": cutKey}}, nil, redact.New())
	output := r.line("a "+strings.Repeat(" ", maxLine-10)+cutKey+strings.Repeat(" b", 16<<20), 400)
	assert.Equal(t, "a", output)
	assert.Equal(t, "b b…", r.line(strings.Repeat(" b", 16<<20), 6))
}

// TestACutOfAResultLeavesNoBeginningOfASecret covers the names in lists and links, which are cut for models.
func TestACutOfAResultLeavesNoBeginningOfASecret(t *testing.T) {
	name := strings.Repeat("n", 500-len(cutKey)+1) + cutKey
	for output, tool := range map[string][]string{
		`{"resources":[{"uri":"` + name + `","name":"x"}]}`:                      {"list_resources", `{}`},
		`{"content":[{"type":"resource_link","uri":"` + name + `","name":"x"}]}`: {"work", `{}`},
	} {
		h := babbling(t, &babbler{output: []byte(`{"jsonrpc":"2.0","id":4,"result":` + output + `}`), at: 2})
		h.opts.Secrets.Add(cutKey)
		r, err := h.Call(t.Context(), working(t, h, tool[0], tool[1]))
		require.NoError(t, err)
		assert.Contains(t, r.Text, "nnnn")
		assert.NotContains(t, r.Text, cutKey[:8])
		require.NoError(t, h.Close())
	}
}
