package frozen

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// countingJournal has one turn and counts what is read and written.
type countingJournal struct {
	Journal
	blobs map[string][]byte
	reads int
	puts  int
}

func (j *countingJournal) TurnConfig(context.Context, string) (journal.TurnConfig, error) {
	j.reads++
	return journal.TurnConfig{Session: "s", Config: json.RawMessage(`{"prompt_config":"h"}`)}, nil
}

func (j *countingJournal) GetBlob(_ context.Context, hash string) ([]byte, error) {
	j.reads++
	return j.blobs[hash], nil
}

func (j *countingJournal) PutBlob(_ context.Context, _ string, b []byte) (string, error) {
	j.puts++
	j.blobs[journal.HashOf(b)] = b
	return journal.HashOf(b), nil
}

func newCache(t *testing.T, maxBytes int64) (*Cache, *countingJournal) {
	t.Helper()
	j := &countingJournal{blobs: map[string][]byte{}}
	c, err := New(j, maxBytes)
	require.NoError(t, err)
	return c, j
}

func TestATurnIsReadOnce(t *testing.T) {
	c, j := newCache(t, 1<<20)
	for range 2 {
		begun, err := c.Turn(t.Context(), "t")
		require.NoError(t, err)
		assert.Equal(t, "s", begun.Session)
	}
	assert.Equal(t, 1, j.reads)
}

func TestAPromptConfigIsWrittenOnceAndReadOnce(t *testing.T) {
	c, j := newCache(t, 1<<20)
	p := turn.PromptConfig{System: "be brief"}
	hash, raw, err := c.EncodePromptConfig(p)
	require.NoError(t, err)
	assert.Equal(t, journal.HashOf(raw), hash, "the journal does not have it yet")
	for range 2 {
		put, err := c.StorePromptConfig(t.Context(), p)
		require.NoError(t, err)
		assert.Equal(t, hash, put)
	}
	assert.Equal(t, 1, j.puts)
	_, raw, err = c.EncodePromptConfig(p)
	require.NoError(t, err)
	assert.Nil(t, raw)
	other, err := New(j, 1<<20) // another worker
	require.NoError(t, err)
	for range 2 {
		got, err := other.PromptConfig(t.Context(), hash)
		require.NoError(t, err)
		assert.Equal(t, p, got)
	}
	assert.Equal(t, 1, j.reads)
}

// TestAWindowIsTheEndOfItsTranscript checks that a window answers only for messages that it has, and that the cache
// stays within its bytes.
func TestAWindowIsTheEndOfItsTranscript(t *testing.T) {
	c, _ := newCache(t, 8<<10)
	head := func(name string) turn.Head { return turn.Head{Seq: 7, Hash: name} }
	messages := []turn.Message{{Text: "five"}, {Text: "six"}, {Text: "seven"}}
	c.AddWindow(head("h"), 5, messages)
	got, ok := c.Window(head("h"), 6)
	assert.True(t, ok)
	assert.Equal(t, messages[1:], got)
	for _, from := range []int64{4, 9} {
		_, ok = c.Window(head("h"), from)
		assert.False(t, ok, from)
	}
	_ = append(got, turn.Message{Text: "eight"})
	again, _ := c.Window(head("h"), 5)
	assert.Equal(t, messages, again, "an append copies")
	c.AddWindow(head("large"), 1, []turn.Message{{Text: strings.Repeat("x", 9<<10)}})
	_, ok = c.Window(head("large"), 1)
	assert.False(t, ok)
	c.AddWindow(head("next"), 1, []turn.Message{{Text: strings.Repeat("x", 7<<10)}})
	_, ok = c.Window(head("h"), 5)
	assert.False(t, ok, "it made room")
	c.ForgetWindows(head("next"))
	_, ok = c.Window(head("next"), 1)
	assert.False(t, ok)
}
