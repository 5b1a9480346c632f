package journaltest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var chunkPromises = []promise{
	{"chunks have no gaps under eight appenders", noGaps},
	{"chunks are paged by index", chunkPages},
	{"only deltas and notices can be appended", chunkKinds},
	{"calls of a settled step can fail", chunksOfCalls},
	{"a step's chunks are emitted once", chunksOfAStep},
}

func noGaps(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	const appenders, each = 8, 20
	var wg sync.WaitGroup
	errs := make(chan error, appenders*each)
	for a := range appenders {
		wg.Go(func() {
			for i := range each {
				errs <- s.AppendChunks(t.Context(), s.key(1), 1, []turn.Chunk{
					{Kind: turn.ChunkTextDelta, Text: fmt.Sprintf("%d:%d ", a, i)}, {Kind: turn.ChunkReasoningDelta, Text: "hm"},
				})
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	list := s.chunks()
	require.Len(t, list, 1+2*appenders*each)
	next := map[int]int{}
	for i := 1; i < len(list); i += 2 {
		var a, n int
		_, err := fmt.Sscanf(list[i].Text, "%d:%d", &a, &n)
		require.NoError(t, err, "an append's chunks stay together")
		assert.Equal(t, next[a], n, "an appender's chunks stay in order")
		next[a]++
		assert.Equal(t, 1, list[i].Step)
		assert.Equal(t, 1, list[i].Attempt)
	}
}

func chunkPages(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	require.NoError(t, s.append(1, 1, "a", "b", "c"))
	page := must(s.Chunks(t.Context(), "t1", 1, 2))(t)
	require.Len(t, page, 2)
	assert.Equal(t, "b", page[0].Text)
	assert.Equal(t, int64(3), page[1].Index)
	assert.False(t, page[1].At.IsZero())
	page = must(s.Chunks(t.Context(), "t1", 3, 2))(t)
	assert.Empty(t, page)
}

func chunkKinds(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	s.unchanged(func() {
		for _, kind := range []turn.ChunkKind{
			turn.ChunkTurnStarted, turn.ChunkTurnCompleted, turn.ChunkToolCallStarted, turn.ChunkToolCallCompleted,
			turn.ChunkAttemptRestarted,
			turn.ChunkApprovalRequested, turn.ChunkApprovalDecided, turn.ChunkQuestionAsked, turn.ChunkQuestionAnswered,
			turn.ChunkMessageAdded, "",
		} {
			assert.Error(t, s.AppendChunks(t.Context(), s.key(1), 1, []turn.Chunk{{Kind: turn.ChunkTextDelta}, {Kind: kind}}),
				kind)
		}
		assert.Error(t, s.AppendChunks(t.Context(), s.key(1), 1, []turn.Chunk{{Kind: turn.ChunkError, Data: []byte("{")}}))
		assert.NoError(t, s.AppendChunks(t.Context(), s.key(1), 1, nil))
	})
	notice := turn.Chunk{Kind: turn.ChunkError, Text: "the provider is busy", Data: []byte(`{"wait_s":3}`)}
	require.NoError(t, s.AppendChunks(t.Context(), s.key(1), 1, []turn.Chunk{notice}))
	list := s.chunks()
	assert.JSONEq(t, `{"wait_s":3}`, string(list[len(list)-1].Data))
}

// chunksOfCalls: after a step is settled, its calls may still append error chunks, but its inference may append
// nothing.
func chunksOfCalls(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	notice := turn.Chunk{Kind: turn.ChunkError, Text: "the server is away"}
	s.unchanged(func() {
		assert.ErrorIs(t, s.AppendChunks(t.Context(), s.key(1), 0, []turn.Chunk{notice}), journal.ErrNotFound)
	})
	s.infer(1, "", turn.ToolCall{ID: "1.0", Tool: "local/a", Arguments: "{}"})
	require.NoError(t, s.AppendChunks(t.Context(), s.key(1), 0, []turn.Chunk{notice}))
	list := s.chunks()
	last := list[len(list)-1]
	assert.Equal(t, turn.ChunkError, last.Kind)
	assert.Equal(t, 1, last.Step)
	assert.Zero(t, last.Attempt)
	s.unchanged(func() {
		delta := turn.Chunk{Kind: turn.ChunkTextDelta, Text: "a"}
		assert.ErrorIs(t, s.AppendChunks(t.Context(), s.key(1), 0, []turn.Chunk{notice, delta}), journal.ErrStale)
		assert.ErrorIs(t, s.AppendChunks(t.Context(), s.key(1), 1, []turn.Chunk{notice}), journal.ErrStale)
	})
	s.finish()
	s.unchanged(func() {
		assert.Error(t, s.AppendChunks(t.Context(), s.key(1), 0, []turn.Chunk{notice}))
	})
}

// chunksOfAStep: the chunks of StartInference are emitted once, by the first attempt.
func chunksOfAStep(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	in := s.startInput(1)
	in.Chunks = []turn.Chunk{{Kind: turn.ChunkPhase, Data: []byte(`{"phase":"LlmInfer"}`)}}
	for range 2 {
		_ = must(s.StartInference(t.Context(), in))(t)
	}
	assert.Equal(t, 1, s.count(turn.ChunkPhase))
}
