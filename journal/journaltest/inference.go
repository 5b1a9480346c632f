package journaltest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var inferencePromises = []promise{
	{"a settled inference is returned and not paid again", settledComesBack},
	{"a completion after settlement is counted and dropped", lateAnswer},
	{"an append at another head is refused", wrongHead},
	{"a second attempt finds the results appended", secondAttempt},
	{"a stale attempt is fenced off", staleAttempt},
	{"shown text is withdrawn when its attempt is repeated", shownTextWithdrawn},
	{"a failure is counted once an attempt", failuresCounted},
	{"a change of the model is recorded once", modelChanged},
	{"a step that was never started is not found", neverStarted},
	{"what a provider wants back is kept beside the message", itemsKept},
}

func settledComesBack(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	base := s.head
	list := calls(1, 2)
	attempt := s.start(1)
	assert.Equal(t, base, attempt.Base)
	assert.False(t, attempt.Settled)
	in := s.settleInput(1, 1, "look", list...)
	in.Events = []turn.Event{{Kind: turn.EventTextDelta, Text: "look", At: s.at}}
	in.Answer.Reasoning = bigText(3000, "reasoning")
	settled := must(s.SettleInference(t.Context(), in))(t)
	want := turn.Message{Role: turn.RoleAssistant, Text: "look", ToolCalls: list, TurnID: "t1", Step: 1}
	assert.Equal(t, want, settled.Message)
	assert.Equal(t, journal.Next(base, want), settled.Head)
	assert.Equal(t, in.Answer, settled.Completion)
	s.unchanged(func() {
		again, err := s.SettleInference(t.Context(), in) // the response to the first call was lost
		require.NoError(t, err)
		assert.Equal(t, settled, again)
		assert.Equal(t, settled, s.start(1))
		message := must(s.StepMessage(t.Context(), s.key(1)))(t)
		assert.Equal(t, want, message)
	})
	steps := must(s.Inferences(t.Context(), "t1"))(t)
	assert.Equal(t, []journal.Inference{settled}, steps)
	texts := s.events()
	assert.Equal(t, "look", texts[started].Text)
}

// lateAnswer starts three attempts of an inference. The third settles it, then the first answers, and after the turn
// has ended the second does.
func lateAnswer(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	s.start(1)
	s.start(1)
	settled := must(s.SettleInference(t.Context(), s.settleInput(1, 3, "third")))(t)
	transcript := s.transcript()
	in := s.settleInput(1, 1, "first, late")
	in.Provider, in.Model = "p", "other" // the third attempt went to a fallback
	late := must(s.SettleInference(t.Context(), in))(t)
	assert.Equal(t, 1, late.Late)
	settled.Late, settled.OtherUsage = 1, turn.Usage{InputTokens: 10, OutputTokens: 1} // it is paid all the same
	assert.Equal(t, settled, late)
	assert.Equal(t, transcript, s.transcript())
	rows := must(s.Usage(t.Context(), journal.UsageByModel, start))(t)
	require.Len(t, rows, 2)
	assert.Equal(t, []string{"/model", "p/other"}, []string{rows[0].Key, rows[1].Key})

	s.head = settled.Head
	before := s.finish().Usage.InputTokens
	must(s.SettleInference(t.Context(), s.settleInput(1, 2, "second, after the end")))(t)
	assert.Equal(t, before+10, must(s.Turn(t.Context(), "t1"))(t).Usage.InputTokens)
}

func wrongHead(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.unchanged(func() {
		for _, head := range []turn.Head{{}, {Seq: 1, Hash: journal.HashOf(nil)}} {
			in := s.startInput(1)
			in.Expect = head
			_, err := s.StartInference(t.Context(), in)
			assert.ErrorIs(t, err, journal.ErrConflict)
		}
		in := s.startInput(1)
		in.Expect = turn.Head{Seq: 2, Hash: s.head.Hash}
		_, err := s.StartInference(t.Context(), in)
		assert.ErrorIs(t, err, journal.ErrBehind)
		in.Key.Turn = "none"
		_, err = s.StartInference(t.Context(), in)
		assert.ErrorIs(t, err, journal.ErrBehind)
	})
	list := calls(1, 1)
	s.infer(1, "look", list...)
	before := s.head
	s.run(list[0], "a")
	s.start(2, resultsOf(list...)...)
	s.unchanged(func() {
		in := s.startInput(2)
		in.Expect = turn.Head{Seq: before.Seq, Hash: journal.HashOf(nil)}
		_, err := s.StartInference(t.Context(), in)
		assert.ErrorIs(t, err, journal.ErrConflict, "a second attempt, too, must know where it stands")
	})
}

func secondAttempt(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	list := calls(1, 2)
	s.infer(1, "look", list...)
	s.run(list[0], "a")
	s.run(list[1], "b")
	in := s.startInput(2, resultsOf(list...)...)
	first := must(s.StartInference(t.Context(), in))(t)
	transcript := s.transcript()
	assert.Len(t, transcript, 4)
	second := must(s.StartInference(t.Context(), in))(t)
	assert.Equal(t, first.Base, second.Base)
	assert.Equal(t, []int{1, 2}, []int{first.Attempt, second.Attempt})
	assert.Equal(t, transcript, s.transcript())
}

// staleAttempt starts two attempts of an inference: the first may write nothing any more, and the second settles it.
func staleAttempt(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	s.start(1)
	s.unchanged(func() {
		assert.ErrorIs(t, s.append(1, 1, "from the dead"), journal.ErrStale)
		_, err := s.SettleInference(t.Context(), s.settleInput(1, 1, "from the dead"))
		assert.ErrorIs(t, err, journal.ErrStale)
	})
	require.NoError(t, s.append(1, 2, "alive"))
	_ = must(s.SettleInference(t.Context(), s.settleInput(1, 2, "alive")))(t)
	s.unchanged(func() { assert.ErrorIs(t, s.append(1, 2, "after the end"), journal.ErrStale) })
}

// shownTextWithdrawn starts four attempts of an inference, the third after the second has shown text.
func shownTextWithdrawn(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	s.start(1)
	assert.Zero(t, s.count(turn.EventAttemptRestarted), "nothing was shown yet")
	require.NoError(t, s.append(1, 2, "half an ", "ans"))
	s.start(1)
	s.start(1)
	assert.Equal(t, 1, s.count(turn.EventAttemptRestarted), "there was text once")
	in := s.settleInput(1, 4, "a whole answer")
	require.NoError(t, s.append(1, 4, "a whole "))
	in.Events = []turn.Event{{Kind: turn.EventTextDelta, Text: "answer"}}
	_ = must(s.SettleInference(t.Context(), in))(t)
	var reader turn.Reader
	for _, e := range s.events() {
		reader.Add(e)
	}
	assert.Equal(t, "a whole answer", reader.Text())
}

// failuresCounted starts four attempts of an inference. The first fails and reports it twice, the second fails and is
// released afterwards, and the third is released without a failure.
func failuresCounted(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	fail := func(attempt int) int {
		t.Helper()
		n := must(s.FailInference(t.Context(), s.key(1), attempt, turn.CodeLLMTransport, "reset"))(t)
		return n
	}
	s.start(1)
	assert.Equal(t, []int{1, 1}, []int{fail(1), fail(1)})
	assert.Equal(t, 1, s.start(1).Failures) // the second attempt
	assert.Equal(t, 2, fail(2))
	_, err := s.FailInference(t.Context(), s.key(1), 3, turn.CodeLLMTransport, "reset")
	assert.Error(t, err, "there is no third attempt")
	require.NoError(t, s.ReleaseInference(t.Context(), s.key(1), 2))
	assert.Zero(t, s.start(1).Released, "the second attempt has failed, so it was sent") // the third attempt
	require.NoError(t, s.ReleaseInference(t.Context(), s.key(1), 3))
	assert.Equal(t, 1, s.start(1).Released, "the third attempt was not sent") // the fourth attempt
}

func modelChanged(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	change := func(attempt, position int) error {
		return s.ChangeModel(t.Context(), s.key(1), attempt, turn.Event{Text: "down"},
			turn.ModelEvent{Provider: "p", Model: "m", Position: position, Code: turn.CodeLLMTransport})
	}
	assert.ErrorIs(t, change(1, 1), journal.ErrNotFound)
	s.start(1)
	assert.Zero(t, must(s.ModelChange(t.Context(), s.key(1)))(t))
	_ = must(s.FailInference(t.Context(), s.key(1), 1, turn.CodeLLMTransport, "reset"))(t)
	require.NoError(t, change(1, 1))
	s.unchanged(func() { require.NoError(t, change(1, 1), "again") })
	s.start(1)
	s.unchanged(func() { assert.ErrorIs(t, change(1, 2), journal.ErrStale) })
	require.NoError(t, change(2, 2))
	got := must(s.ModelChange(t.Context(), s.key(2)))(t)
	assert.Equal(t, turn.ModelEvent{Provider: "p", Model: "m", Position: 2, Step: 1, Failures: 1,
		Code: turn.CodeLLMTransport}, got, "it holds for later steps")
	assert.Zero(t, must(s.ModelChange(t.Context(), s.key(0)))(t), "not for earlier ones")
	json := turn.ModelEvent{Provider: "p", Model: "m", Position: 2, Code: turn.CodeLLMRejected, Mode: turn.ModeJSON}
	for range 2 { // the second time it is known
		require.NoError(t, s.ChangeModel(t.Context(), s.key(1), 2, turn.Event{Text: "no tools"}, json))
	}
	assert.Equal(t, turn.ModeJSON, must(s.ModelChange(t.Context(), s.key(2)))(t).Mode)
	_ = must(s.SettleInference(t.Context(), s.settleInput(1, 2, "x")))(t)
	s.unchanged(func() { assert.ErrorIs(t, change(2, 3), journal.ErrStale) })
}

func neverStarted(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	_, err := s.StepMessage(t.Context(), s.key(1))
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.SettleInference(t.Context(), s.settleInput(1, 1, "x"))
	assert.ErrorIs(t, err, journal.ErrNotFound)
	assert.ErrorIs(t, s.append(1, 1, "x"), journal.ErrNotFound)
	_, err = s.Turn(t.Context(), "none")
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.Session(t.Context(), "none")
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.Messages(t.Context(), "none", 1, 2)
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.Call(t.Context(), "t1", "1.0")
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.SettleCall(t.Context(), "t1", "1.0", 1, turn.ToolResult{Outcome: turn.OutcomeOK}, start)
	assert.ErrorIs(t, err, journal.ErrNotFound)
	s.turn = "none"
	_, err = s.StartInference(t.Context(), s.startInput(1))
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.ClaimCall(t.Context(), s.claimInput(calls(1, 1)[0], 1), false)
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.Finish(t.Context(), s.finishInput())
	assert.ErrorIs(t, err, journal.ErrNotFound)
	_, err = s.GetBlob(t.Context(), journal.HashOf(nil))
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

// itemsKept checks the items of a provider in windows of the session, of a fork of it and of its import.
func itemsKept(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	items := func(raw string) *turn.ProviderItems {
		return &turn.ProviderItems{Provider: "p", API: turn.APIResponses, Model: "m", Items: []turn.ProviderItem{
			{Raw: must(json.Marshal(raw))(t)}, {Part: turn.PartText},
		}}
	}
	want := []*turn.ProviderItems{nil, items("short"), items(bigText(5000, "long")), nil}
	for step, kept := range want[1:] {
		s.start(step + 1)
		in := s.settleInput(step+1, 1, "answer")
		in.Answer.Items = kept
		settled := must(s.SettleInference(t.Context(), in))(t)
		assert.Equal(t, kept, settled.Message.Items)
		s.head = settled.Head
		assert.Equal(t, kept, must(s.SettleInference(t.Context(), in))(t).Message.Items)
	}
	of := func(db *journal.DB, turnID string, from, to, most int64) (out []*turn.ProviderItems) {
		for _, m := range must(db.Window(t.Context(), turnID, from, to, most))(t) {
			out = append(out, m.Items)
		}
		return out
	}
	assert.Equal(t, want, of(s.DB, s.turn, 1, 9, 1<<20))
	assert.Equal(t, want[2:3], of(s.DB, s.turn, 3, 3, 1<<20))
	assert.Equal(t, []*turn.ProviderItems{nil, nil, nil, nil}, of(s.DB, s.turn, 1, 9, 1000), "a model can do without")
	s.finish()

	f := s.fork(3, "f")
	f.begin()
	f.infer(1, "answer")
	assert.Equal(t, []*turn.ProviderItems{nil, want[1], want[2], nil, nil}, of(f.DB, f.turn, 1, 9, 1<<20))

	other := open()
	must(other.Import(t.Context(), bytes.NewReader(export(t, s.DB))))(t)
	assert.Equal(t, want, of(other, s.turn, 1, 9, 1<<20))
}
