package journaltest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var contentPromises = []promise{
	{"large content comes back whole", largeContent},
	{"odd bytes become text and keep their hash", oddBytes},
	{"a range of the transcript is read alone", messageRange},
	{"a window is not loaded above its bound", windowBounded},
	{"a user's message is not loaded above its bound", messageBounded},
	{"a blob is stored under its hash", blobs},
	{"the current catalogue is the last one published", catalogues},
}

// bigText makes n bytes that repeat what, so that texts for different uses do not share a blob.
func bigText(n int, what string) string {
	return strings.Repeat(what+" <&> \"quoted\" é ", n/(len(what)+17)+1)[:n]
}

func largeContent(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	c := turn.ToolCall{ID: "1.0", Tool: "local/write_file", Arguments: bigText(1<<20, "arguments")}
	answer := s.infer(1, bigText(2<<20, "answer"), c)
	result := journal.CleanText(bigText(16<<20, "result"))
	s.run(c, result)
	s.start(2, resultsOf(c)...)
	messages := s.transcript()
	require.Len(t, messages, 3)
	assert.True(t, messages[1].Text == journal.CleanText(bigText(2<<20, "answer")), "the answer")
	assert.True(t, messages[1].ToolCalls[0].Arguments == journal.CleanText(c.Arguments), "the arguments")
	assert.True(t, messages[2].Text == result, "the result")
	rec := must(s.Call(t.Context(), "t1", "1.0"))(t)
	assert.True(t, rec.Text == result && rec.Call.Arguments == messages[1].ToolCalls[0].Arguments, "the ledger")
	again := s.start(1)
	assert.True(t, again.Completion.Text == answer.Completion.Text &&
		string(again.Completion.Raw) == string(answer.Completion.Raw), "the inference")
}

func windowBounded(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	c := turn.ToolCall{ID: "1.0", Tool: "local/write_file", Arguments: strings.Repeat("a", 30_000)}
	s.infer(1, strings.Repeat("b", 20_000), c)
	s.run(c, strings.Repeat("c", 100))
	s.start(2, resultsOf(c)...)
	all := must(s.Window(t.Context(), "t1", 1, 3, 60_000))(t)
	assert.Equal(t, s.transcript(), all)
	for bound, seq := range map[int64]int64{10: 1, 10_000: 2, 40_000: 2} {
		_, err := s.Window(t.Context(), "t1", 1, 3, bound)
		var large *journal.TooLargeError
		require.ErrorAs(t, err, &large, bound)
		assert.Equal(t, journal.TooLargeError{Seq: seq, Max: bound}, *large)
	}
	few := must(s.Window(t.Context(), "t1", 3, 3, 200))(t)
	assert.Equal(t, s.transcript()[2:], few)
}

func messageBounded(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.finish()
	hash, err := s.PutBlob(t.Context(), "text/plain", make([]byte, journal.MaxMessageBytes+1))
	require.NoError(t, err)
	in := s.beginInput()
	in.Turn, in.Message.ID, in.Message.Text, in.Message.Blob = "t2", "m2", "", hash
	s.unchanged(func() {
		_, err = s.Begin(t.Context(), in)
		var large *journal.TooLargeError
		assert.ErrorAs(t, err, &large)
	})
}

func oddBytes(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	odd := "nul \x00 bell \x07 escape \x1b[31m bad \xff\xfe line \u2028 emoji 🦀 <script>"
	c := turn.ToolCall{ID: "1.0", Tool: "x\xff", Arguments: "{\x00\xff"}
	settled := s.infer(1, odd, c)
	s.run(c, odd)
	s.start(2, resultsOf(c)...)
	want := strings.ToValidUTF8(strings.ReplaceAll(odd, "\x00", "\uFFFD"), "\uFFFD")
	messages := s.transcript()
	assert.Equal(t, want, messages[1].Text)
	assert.Equal(t, want, messages[2].Text)
	assert.Equal(t, want, s.start(1).Completion.Text)
	assert.Equal(t, settled.Message, messages[1])
	b := must(json.Marshal(messages[1]))(t)
	var back turn.Message
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, messages[1], back)
}

func messageRange(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	for step := 1; step <= 5; step++ {
		s.infer(step, "thought")
	}
	all := s.transcript()
	require.Len(t, all, 6)
	for _, r := range [][2]int64{{1, 1}, {2, 4}, {6, 6}, {0, 2}, {5, 99}, {4, 3}, {7, 9}} {
		got := must(s.Messages(t.Context(), "s", r[0], r[1]))(t)
		var want []turn.Message
		for i, m := range all {
			if seq := int64(i + 1); seq >= r[0] && seq <= r[1] {
				want = append(want, m)
			}
		}
		assert.Equal(t, want, got, "%v", r)
	}
}

func blobs(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	for _, b := range [][]byte{nil, {0}, []byte("text"), []byte(bigText(100_000, "blob"))} {
		for range 2 {
			hash := must(s.PutBlob(t.Context(), "application/octet-stream", b))(t)
			assert.Equal(t, journal.HashOf(b), hash)
			got := must(s.GetBlob(t.Context(), hash))(t)
			assert.Equal(t, string(b), string(got))
		}
	}
	_, err := s.PutBlob(t.Context(), "x", make([]byte, journal.MaxBlobBytes+1))
	assert.Error(t, err)
}

func catalogues(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	local := turn.Catalogue{Server: "local", Hash: "h1", Tools: []turn.Descriptor{{
		ID: "local/read_file", Wire: "read_file", Description: bigText(5000, "tool"),
		Schema: json.RawMessage(`{"type":"object"}`),
		Hash:   "h", Activity: turn.ActivityLocal, Risk: turn.RiskLow, Repeatable: true, Timeout: time.Second,
	}}}
	broken := turn.Catalogue{Server: "files", Required: true, Problem: "exec: not found"}
	for _, c := range []turn.Catalogue{local, broken, local} {
		require.NoError(t, s.PublishCatalogue(t.Context(), c))
	}
	list := must(s.Catalogues(t.Context()))(t)
	local.Tools[0].Description = journal.CleanText(local.Tools[0].Description)
	assert.Equal(t, []turn.Catalogue{broken, local}, list)

	repaired := turn.Catalogue{Server: "files", Required: true, Hash: "h2"}
	require.NoError(t, s.PublishCatalogue(t.Context(), repaired))
	list = must(s.Catalogues(t.Context()))(t)
	assert.Equal(t, repaired, list[0])
}
