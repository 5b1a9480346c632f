package chat_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/workflows/turn"
)

type heard struct{ text, reasoning strings.Builder }

func (h *heard) Text(s string)      { h.text.WriteString(s) }
func (h *heard) Reasoning(s string) { h.reasoning.WriteString(s) }

// drainStream reads a whole stream as Infer does.
func drainStream(r io.Reader, maxRaw int) (turn.Completion, *heard, error) {
	h := &heard{}
	c, err := inference.Collect(r, chat.Wire{}, h, maxRaw)
	return c, h, err
}

func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
		`{"choices":[{"message":{"content":"hi","tool_calls":[{"id":"a","function":{"name":"n","arguments":{}}}]},"finish_reason":"stop"}]}`,
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":3,\"function\":{\"arguments\":\"\\u0000\xff\"}}]}}]}\n",
		"\xEF\xBB\xBF: comment\r\n\r\nevent: x\r\ndata: {\"choices\":\r\ndata: []}\r\n\r\n",
		"data: {\"error\":{\"message\":\"no\"}}\n\n", "<html>", "data:", "data: [\n", "\n\n\n",
		"data: {\"usage\":{\"prompt_tokens\":1e400}}\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":[{\"text\":[{\"text\":\"a\"}]},{\"text\":\"b\"}]}}]}\n\n",
		"data: " + strings.Repeat("[", 200), "{" + strings.Repeat("[", 200), "{}{} ", "{\"choices\":[", "data: {} {}\n\n",
	} {
		f.Add([]byte(seed))
	}
	const maxRaw = 300
	f.Fuzz(func(t *testing.T, body []byte) {
		done, h, err := drainStream(bytes.NewReader(body), maxRaw)
		require.Error(t, err, "a stream ends")
		assert.True(t, json.Valid(done.Raw), "%s", done.Raw)
		assert.LessOrEqual(t, len(done.Raw), maxRaw+100)
		assert.Equal(t, done.Text, h.text.String())
		assert.Equal(t, done.Reasoning, h.reasoning.String())
		for _, c := range append(done.ToolCalls, turn.ToolCall{Arguments: done.Text + done.Reasoning + done.Model + done.FinishReason}) {
			assert.True(t, utf8.ValidString(c.WireID+c.Tool+c.Arguments))
			assert.NotContains(t, c.WireID+c.Tool+c.Arguments, "\x00")
		}
		again, _, _ := drainStream(iotest.OneByteReader(bytes.NewReader(body)), maxRaw)
		assert.Equal(t, done, again, "how the network cuts the stream does not matter")
	})
}

// TestManyDataLinesAreReadInLinearTime checks that data lines that never form an event cost no more than reading them.
func TestManyDataLinesAreReadInLinearTime(t *testing.T) {
	body := "data: [\n" + strings.Repeat("data: 1\n", 500_000)
	_, _, err := drainStream(strings.NewReader(body), 0)
	require.ErrorIs(t, err, io.EOF)
}

// TestCollectingIsLinear checks that collecting four times as much takes about four times the memory, not sixteen
// times. It counts bytes, because copying the text for each piece takes no more allocations than appending to it.
func TestCollectingIsLinear(t *testing.T) {
	parts := func(n int) string {
		return `data: {"choices":[{"delta":{"content":[` + strings.Repeat(`{"text":"a"},`, n) + `{"text":"."}]}}]}` + "\n\n"
	}
	calls := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"function":{"arguments":"a"}}]}}]}`+"\n\n",
				i%1000)
		}
		return b.String()
	}
	nested := func(n int) string {
		depth := 9 * n / 1000 // nesting depth of lists of parts
		content := `"` + strings.Repeat("a", 20*n) + `"`
		return `data: {"choices":[{"delta":{"content":` + strings.Repeat(`[{"text":`, depth) + content +
			strings.Repeat(`}]`, depth) + `}}]}` + "\n\n"
	}
	for name, body := range map[string]func(int) string{"content parts": parts, "parts of calls": calls,
		"nested content": nested} {
		t.Run(name, func(t *testing.T) {
			const n = 1500
			once, four := allocated(t, body(n)), allocated(t, body(4*n))
			assert.Less(t, four, 8*once, "%d bytes for %d, %d for %d", once, n, four, 4*n)
		})
	}
}

// allocated returns the number of bytes that reading a stream allocates.
func allocated(t *testing.T, body string) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := drainStream(strings.NewReader(body), 0)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.EOF)
	return after.TotalAlloc - before.TotalAlloc
}
