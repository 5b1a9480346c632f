package journaltest

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var compactPromises = []promise{
	{"a compaction is recorded once for an inference", compactedOnce},
	{"a compaction applies from its message on, also in forks", compactionApplies},
	{"a prompt is rendered from what follows its compaction", promptContext},
	{"a compaction that a user asks for is recorded once", compactedByHand},
	{"compactions are exported and imported", compactionsExported},
	{"the texts of a session are artifacts of it and its forks", textArtifacts},
}

func (s *script) compaction(base turn.Head, to int64, summary string) turn.Compaction {
	c := turn.Compaction{
		Reason: turn.CompactionProjected, Method: turn.CompactionSummarized, At: base, From: 1, To: to, Summary: summary,
		Kept: turn.Kept{Users: []turn.KeptMessage{{Seq: 1, Text: "question"}}}, Provider: "p", Model: "m",
		Usage: turn.Usage{InputTokens: 100, OutputTokens: 7, Cost: 5}, Before: 900, After: 400, Context: 1000,
		SettledAt: s.now(),
	}
	for _, m := range s.transcript()[:to] {
		c.Hash = journal.Next(turn.Head{Hash: c.Hash}, m).Hash
	}
	return c
}

func (s *script) settleCompaction(step, attempt int, c turn.Compaction) (turn.Compaction, error) {
	return s.SettleCompaction(s.Context(),
		journal.SettleCompaction{Session: s.session, Key: s.key(step), Attempt: attempt, Compaction: c})
}

// compactionAt returns the compaction that applies to a prompt of the turn up to this message.
func (s *script) compactionAt(turnID string, seq int64) *turn.Compaction {
	s.Helper()
	return must(s.PromptContext(s.Context(), journal.PromptContextInput{Turn: turnID, From: 1, To: seq, Compacted: true,
		MaxBytes: 1 << 20}))(s.T).Compaction
}

func compactedOnce(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	s.turn = "t3"
	s.begin()
	base := s.start(1).Base
	_ = s.start(1) // a second attempt
	_, err := s.settleCompaction(1, 1, s.compaction(base, 4, "stale"))
	require.ErrorIs(t, err, journal.ErrStale)
	none := s.compactionAt("t3", base.Seq)
	assert.Nil(t, none)
	first := must(s.settleCompaction(1, 2, s.compaction(base, 4, bigText(3000, "first"))))(t)
	assert.Equal(t, journal.StepKey{Turn: "t3", Step: 1}, journal.StepKey{Turn: first.Turn, Step: first.Step})
	s.unchanged(func() {
		again := must(s.settleCompaction(1, 2, s.compaction(base, 4, "second")))(t)
		assert.Equal(t, first, again)
	})
	assert.Equal(t, 1, s.count(turn.EventCompacted))
	other := s.compaction(base, 4, "after an overflow")
	other.Reason = turn.CompactionOverflow
	_ = must(s.settleCompaction(1, 2, other))(t)
	last := s.compactionAt("t3", base.Seq)
	assert.Equal(t, "after an overflow", last.Summary)
	usage := must(s.CompactionUsage(t.Context(), s.key(1)))(t)
	assert.Equal(t, turn.Usage{InputTokens: 200, OutputTokens: 14, Cost: 10}, usage)
	_ = must(s.SettleInference(t.Context(), s.settleInput(1, 2, "done")))(t)
	s.finish()
	again := must(s.settleCompaction(1, 2, s.compaction(base, 4, "too late")))(t)
	assert.Equal(t, first, again)
}

func compactionApplies(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	s.turn = "t3"
	s.begin()
	base := s.start(1).Base // 8
	made := must(s.settleCompaction(1, 1, s.compaction(base, 5, "what was said")))(t)
	_ = must(s.SettleInference(t.Context(), s.settleInput(1, 1, "done")))(t)
	s.finish()
	for at, want := range map[int64]*turn.Compaction{5: nil, 7: nil, 8: &made, 9: &made} {
		f := s.fork(at, "fork at "+string(rune('0'+at)))
		f.begin()
		got := s.compactionAt(f.turn, 100)
		assert.Equal(t, want, got, "a fork at %d", at)
		list := must(s.Compactions(t.Context(), f.session))(t)
		assert.Equal(t, want != nil, len(list) == 1)
	}
	before := s.compactionAt("t3", 7)
	assert.Nil(t, before, "prompts before it were not compacted")
	f := s.fork(9, "fork")
	f.begin()
	own := must(f.settleCompaction(1, f.start(1).Attempt, f.compaction(f.head, 8, "more")))(t)
	got := s.compactionAt(f.turn, 100)
	assert.Equal(t, own, *got)
	got = s.compactionAt("t3", 100)
	assert.Equal(t, made, *got, "the forked session keeps its own")
}

// promptContext checks what a prompt is rendered from: the messages after the compaction, with the size of the prompt
// of the last answer among them.
func promptContext(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	s.turn = "t3"
	s.begin()
	base := s.start(1).Base
	in := journal.PromptContextInput{Turn: "t3", From: 2, To: base.Seq, Compacted: true, MaxBytes: 1 << 20}
	all := s.transcript()
	got := must(s.PromptContext(t.Context(), in))(t)
	assert.Equal(t, journal.PromptContext{Messages: all[1:], Last: got.Last}, got)
	c := must(s.settleCompaction(1, 1, s.compaction(base, 5, "what was said")))(t)
	done := s.settleInput(1, 1, "done")
	done.Answer.Usage.InputTokens = 40
	head := must(s.SettleInference(t.Context(), done))(t).Head
	in.To = head.Seq
	want := journal.PromptContext{Compaction: &c, Messages: s.transcript()[5:],
		Last: journal.PromptSize{Turn: "t3", Model: "model", Tokens: 40, UpTo: base.Seq}}
	assert.Equal(t, want, must(s.PromptContext(t.Context(), in))(t))
	in.MaxBytes = 1
	large, err := s.PromptContext(t.Context(), in)
	require.ErrorAs(t, err, new(*journal.TooLargeError))
	assert.Equal(t, journal.PromptContext{Compaction: &c}, large, "the messages after it may still fit")
	in.From = in.To + 1
	assert.Empty(t, must(s.PromptContext(t.Context(), in))(t).Messages)
	in.From, in.MaxBytes, in.Compacted = 1, 1<<20, false
	assert.Equal(t, s.transcript(), must(s.PromptContext(t.Context(), in))(t).Messages)
	s.finish()
	f := s.fork(head.Seq, "f")
	f.begin()
	in.Turn, in.To, in.Compacted = f.turn, head.Seq+1, true
	want.Messages = f.transcript()[5:]
	assert.Equal(t, want, must(f.PromptContext(t.Context(), in))(t), "a fork shares them")
	in.Turn = "none"
	_, err = s.PromptContext(t.Context(), in)
	require.ErrorIs(t, err, journal.ErrNotFound)
}

func compactedByHand(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	head := s.sessionRecord().Head
	c := s.compaction(head, 5, "by hand")
	c.Reason = turn.CompactionManual
	_, err := s.Compacted(t.Context(), "s", "r1")
	require.ErrorIs(t, err, journal.ErrNotFound)
	added := must(s.AddCompaction(t.Context(), "s", "r1", c))(t)
	c.Summary = "again"
	again := must(s.AddCompaction(t.Context(), "s", "r1", c))(t)
	assert.Equal(t, added, again)
	found := must(s.Compacted(t.Context(), "s", "r1"))(t)
	assert.Equal(t, added, found)
	c.At.Hash = c.Hash
	_, err = s.AddCompaction(t.Context(), "s", "r2", c)
	require.ErrorIs(t, err, journal.ErrConflict)
	list := must(s.Compactions(t.Context(), "s"))(t)
	assert.Equal(t, []turn.Compaction{added}, list)
}

func compactionsExported(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	s.turn = "t3"
	s.begin()
	base := s.start(1).Base
	_ = must(s.settleCompaction(1, 1, s.compaction(base, 5, bigText(5000, "summary"))))(t)
	_ = must(s.SettleInference(t.Context(), s.settleInput(1, 1, "done")))(t)
	s.finish()
	c := s.compaction(s.sessionRecord().Head, 7, "by hand")
	c.Reason = turn.CompactionManual
	_ = must(s.AddCompaction(t.Context(), "s", "r1", c))(t)
	want := must(s.Compactions(t.Context(), "s"))(t)
	require.Len(t, want, 2)
	b := export(t, s.DB)
	to := open()
	_ = must(to.Import(t.Context(), bytes.NewReader(b)))(t)
	got := must(to.Compactions(t.Context(), "s"))(t)
	assert.Equal(t, want, got)
	assert.Equal(t, history(t, b), history(t, export(t, to)))
}

func textArtifacts(t *testing.T, open func() *journal.DB) {
	s := twoTurns(t, open())
	f := s.fork(5, "f")
	f.begin()
	output, later := bigText(3000, "b"), bigText(2000, "more")
	read := func(ctx context.Context, turnID, text string) error {
		_, b, err := s.Artifact(ctx, turnID, journal.HashOf([]byte(text)))
		assert.True(t, err != nil || text == string(b))
		return err
	}
	require.NoError(t, read(t.Context(), "t1", output))
	require.NoError(t, read(t.Context(), "t1", later))
	require.NoError(t, read(t.Context(), f.turn, output))
	require.ErrorIs(t, read(t.Context(), f.turn, later), journal.ErrNotFound)
	other := &script{T: t, DB: s.DB, session: "other", turn: "t9", at: start}
	other.begin()
	require.ErrorIs(t, read(t.Context(), "t9", output), journal.ErrNotFound)
}
