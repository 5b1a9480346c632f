package talk

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// FuzzView: models and tools write what a terminal shows. Whatever the chunks of a turn hold and in whatever order they
// come, nothing but text reaches the terminal, the answer stands at its end, and as JSON a chunk is one line that
// loses nothing.
func FuzzView(f *testing.F) {
	for _, s := range []string{"The answer.", "\x1b[2J\x1b]52;c;aGk=\x07", "two\nlines\n", "\u202e\u2066\u009b31m",
		"\r\n\t", "e\u0301 👩‍🚀", "\n\n\x07", ""} {
		f.Add(s, []byte{0, 1, 2, 3, 4, 5, 0}, false)
		f.Add(s, []byte{0x80, 0x81, 0x10, 0x01, 0xf0}, true)
	}
	f.Fuzz(func(t *testing.T, s string, script []byte, other bool) {
		var out, err bytes.Buffer
		a := &app.App{Streams: app.Streams{Out: &out, Err: &err}, Color: app.ColorNever}
		v := newView(a, followOptions{output: "text"})
		v.live, v.chatty = true, true
		chunks := chunksOf(strings.ToValidUTF8(s, "\uFFFD"), script)
		for _, c := range chunks {
			v.chunk(c)
		}
		answer := v.reader.Text()
		if other {
			answer = s
		}
		v.end(answer, workflows.Result{Session: s, FinishReason: turn.FinishReason(s), Code: turn.Code(s), Message: s,
			Answer: answer})
		requireText(t, out.String())
		requireText(t, strings.ReplaceAll(err.String(), eraseLine, ""))
		require.True(t, strings.HasSuffix(flat(out.String()), flat(app.Printable(answer))), "%q does not end with %q",
			out.String(), answer)
		require.True(t, out.Len() == 0 || strings.HasSuffix(out.String(), "\n"),
			"the prompt would stand behind the answer: %q", out.String())
		for _, c := range chunks {
			requireLine(t, c)
		}
	})
}

// chunksOf cuts s into chunks as the script says: a byte is a kind, a step and how many characters to take.
func chunksOf(s string, script []byte) []turn.Chunk {
	kinds := []turn.ChunkKind{turn.ChunkTextDelta, turn.ChunkTextDelta, turn.ChunkAttemptRestarted,
		turn.ChunkToolCallStarted, turn.ChunkToolCallCompleted, turn.ChunkError, turn.ChunkReasoningDelta, "news"}
	others := map[turn.ChunkKind]turn.ChunkKind{"news": turn.ChunkToolProgress,
		turn.ChunkReasoningDelta: turn.ChunkQuestionAsked, turn.ChunkToolCallStarted: turn.ChunkToolCallLateResult}
	rest, step := []rune(s), 1
	var chunks []turn.Chunk
	for _, b := range script {
		step += int(b >> 3 & 1)
		n := min(len(rest), int(b>>4))
		c := turn.Chunk{Turn: "t", Kind: kinds[b%8], Step: step, Text: string(rest[:n])}
		if other, ok := others[c.Kind]; ok && b>>7 == 1 {
			c.Kind = other
			c.Data, _ = json.Marshal(map[string]any{"id": "e1.0.1", "kind": turn.RequestElicitation, "call_id": "1.0", "tool": s,
				"message": s, "done": len(s), "elicitation": turn.Elicitation{Message: s}})
		}
		if c.Kind == turn.ChunkToolCallStarted || c.Kind == turn.ChunkToolCallCompleted {
			// strings always marshal
			c.Data, _ = json.Marshal(turn.CallChunk{Tool: c.Text, Arguments: s, Outcome: turn.Outcome(s)})
		}
		rest = rest[n:]
		chunks = append(chunks, c)
	}
	return chunks
}

func flat(s string) string { return strings.ReplaceAll(s, "\n", "") }

func requireText(t *testing.T, s string) {
	t.Helper()
	i := strings.IndexFunc(s, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
	})
	require.Negative(t, i, "%q", s)
}

// requireLine checks a chunk's line of JSON.
func requireLine(t *testing.T, c turn.Chunk) {
	t.Helper()
	var out bytes.Buffer
	newView(&app.App{Streams: app.Streams{Out: &out}}, followOptions{output: "jsonl"}).chunk(c)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	requireText(t, out.String())
	var back event
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, c.Text, back.Chunk.Text)
	require.Equal(t, c.Kind, back.Chunk.Kind)
}
