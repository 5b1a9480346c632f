package inference

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// FuzzRefusal parses the body of a refusal, which comes from outside.
func FuzzRefusal(f *testing.F) {
	f.Add(429, []byte(`{"error":{"message":"m","type":"t","code":1,"param":null}}`))
	f.Add(0, []byte(`[{"error":{"code":502}}]`))
	f.Add(400, []byte("\x1b[2Jtext"))
	e, err := New(Options{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		refused := e.providerError(status, nil, body)
		assert.Less(t, len(refused.Message), 3*maxProviderMessage)
		assert.Equal(t, printable.Line(refused.Message, len(refused.Message)), refused.Message)
		assert.True(t, utf8.ValidString(refused.Error()))
		assert.Contains(t, []turn.Code{turn.CodeLLMRejected, turn.CodeLLMUnauthorized, turn.CodeLLMRateLimited,
			turn.CodeLLMTransport, turn.CodeContextOverflow}, refused.Code)
	})
}

// FuzzShape checks an event's bounds, and where its JSON ends, on its raw bytes.
func FuzzShape(f *testing.F) {
	for _, seed := range []string{`{"a":"}\\\""}`, `[[],{"b":[1,2]}]`, `{"\u007d":"\\"} `, `{"a":"[`, `[1,2`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.TrimSpace(data)
		if !json.Valid(data) || data[0] != '{' && data[0] != '[' {
			return
		}
		var b eventBounds
		for i := range data {
			require.False(t, b.complete(), "%q is complete", data[:i])
			if b.add(data[i:i+1]) != nil {
				return
			}
		}
		require.True(t, b.complete())
	})
}
