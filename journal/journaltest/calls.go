package journaltest

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var callPromises = []promise{
	{"a call that may not be repeated is granted once", grantedOnce},
	{"a repeatable call is granted again until it is settled", repeatableAgain},
	{"an older attempt cannot claim", claimStale},
	{"a settled call is not run again", claimSettled},
	{"a released call is claimed again", released},
	{"a release leaves an earlier claim", releasedBeside},
	{"a claim whose reply was lost is granted to the same attempt again", claimRepeated},
	{"a call that may have run is unknown, whatever its turn says", unknownWhateverTheTurnSays},
	{"a call that may have run is taken, even if it is not approved", takenUnapproved},
	{"the first settlement stands and later ones are kept", firstSettles},
	{"a settlement repeated is the same settlement", settleTwice},
	{"a call is not claimed with other arguments", sameArguments},
	{"events of calls show previews", callPreviews},
}

// asked begins a turn whose model has asked for n calls.
func asked(t *testing.T, open func() *journal.DB, n int) (*script, []turn.ToolCall) {
	t.Helper()
	s := newScript(t, open(), "t1")
	list := calls(1, n)
	s.infer(1, "look", list...)
	return s, list
}

func grantedOnce(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	first := s.claim(list[0], 1)
	assert.Equal(t, journal.ClaimGranted, first.Claim)
	assert.Equal(t, list[0], first.Call)
	assert.Equal(t, s.at, first.ClaimedAt)
	assert.Equal(t, journal.ClaimTaken, s.claim(list[0], 1).Claim, "the same attempt after a crash")
	second := s.claim(list[0], 2)
	assert.Equal(t, journal.ClaimTaken, second.Claim)
	assert.Equal(t, 1, second.Runs)
	assert.Equal(t, 1, s.count(turn.EventToolCallStarted))
}

func repeatableAgain(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	for attempt := 1; attempt <= 2; attempt++ {
		in := s.claimInput(list[0], attempt)
		in.Repeatable = true
		out := must(s.ClaimCall(t.Context(), in, false))(t)
		assert.Equal(t, journal.ClaimGranted, out.Claim)
		assert.Equal(t, attempt, out.Runs)
		assert.True(t, out.Repeatable)
		assert.Equal(t, attempt, out.Attempt)
	}
	rec := s.settleCall(list[0], 1, turn.OutcomeOK, "from the first, which was not dead")
	assert.False(t, rec.Late, "the first result settles where none has")
	assert.Equal(t, journal.ClaimSettled, s.claim(list[0], 3).Claim)
	assert.Equal(t, 1, s.count(turn.EventToolCallStarted))
}

func claimStale(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	for _, attempt := range []int{2, 1} {
		in := s.claimInput(list[0], attempt)
		in.Repeatable = true
		out := must(s.ClaimCall(t.Context(), in, false))(t)
		want := journal.ClaimGranted
		if attempt == 1 {
			want = journal.ClaimStale
		}
		assert.Equal(t, want, out.Claim)
		assert.Equal(t, 1, out.Runs)
		assert.Equal(t, 2, out.Attempt)
	}
}

func claimSettled(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.run(list[0], "content")
	s.unchanged(func() {
		again := s.claim(list[0], 2)
		assert.Equal(t, journal.ClaimSettled, again.Claim)
		assert.Equal(t, "content", again.Text)
		assert.Equal(t, turn.OutcomeOK, again.Outcome)
		rec := must(s.Call(t.Context(), "t1", list[0].ID))(t)
		again.Claim = ""
		assert.Equal(t, rec, again)
	})
}

func released(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 3)
	s.unchanged(func() { assert.NoError(t, s.ReleaseCall(t.Context(), "t1", list[0].ID, 1), "there is no claim") })
	s.claim(list[0], 1)
	s.unchanged(func() { assert.NoError(t, s.ReleaseCall(t.Context(), "t1", list[0].ID, 2), "it is another attempt's") })
	for range 2 {
		require.NoError(t, s.ReleaseCall(t.Context(), "t1", list[0].ID, 1))
	}
	again := s.claim(list[0], 2)
	assert.Equal(t, journal.ClaimGranted, again.Claim)
	assert.Equal(t, 1, again.Runs)
	assert.Equal(t, journal.ClaimTaken, s.claim(list[0], 3).Claim, "it is granted once, not for ever")

	s.run(list[1], "done")
	s.unchanged(func() { assert.NoError(t, s.ReleaseCall(t.Context(), "t1", list[1].ID, 1), "it is settled") })

	s.claim(list[2], 1)
	require.NoError(t, s.ReleaseCall(t.Context(), "t1", list[2].ID, 1))
	s.finish()
	rec := must(s.Call(t.Context(), "t1", list[2].ID))(t)
	assert.Equal(t, turn.OutcomeCancelled, rec.Outcome, "nothing reached the tool")
}

// releasedBeside: a repeatable call has a claim without an outcome, and the claim of its next attempt was released.
func releasedBeside(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	for attempt := 1; attempt <= 2; attempt++ {
		in := s.claimInput(list[0], attempt)
		in.Repeatable = true
		out := must(s.ClaimCall(t.Context(), in, false))(t)
		require.Equal(t, journal.ClaimGranted, out.Claim)
	}
	require.NoError(t, s.ReleaseCall(t.Context(), "t1", list[0].ID, 2))
	assert.Equal(t, journal.ClaimTaken, s.claim(list[0], 3).Claim, "it is not repeatable any more, and may have run")
	s.finish()
	rec := must(s.Call(t.Context(), "t1", list[0].ID))(t)
	assert.Equal(t, 1, rec.Runs)
	assert.Equal(t, turn.OutcomeUnknown, rec.Outcome, "the first one may have had its effect")
}

func claimRepeated(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	in := s.claimInput(list[0], 1)
	first := must(s.ClaimCall(t.Context(), in, false))(t)
	s.unchanged(func() {
		again := must(s.ClaimCall(t.Context(), in, false))(t)
		assert.Equal(t, first, again)
	})
	in.Worker = "another"
	other := must(s.ClaimCall(t.Context(), in, false))(t)
	assert.Equal(t, journal.ClaimTaken, other.Claim)
}

func unknownWhateverTheTurnSays(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 3)
	s.claim(list[0], 1)
	s.claim(list[1], 1)
	given := func(c turn.ToolCall, o turn.Outcome) turn.CallOutcome {
		return turn.CallOutcome{CallID: c.ID, Outcome: o, Code: turn.CodeToolFailed, Text: "it did not run"}
	}
	s.start(2, given(list[0], turn.OutcomeDenied), given(list[1], turn.OutcomeError), given(list[2], turn.OutcomeError))
	for i, want := range []turn.Outcome{turn.OutcomeUnknown, turn.OutcomeUnknown, turn.OutcomeError} {
		rec := must(s.Call(t.Context(), "t1", list[i].ID))(t)
		assert.Equal(t, want, rec.Outcome)
		if want == turn.OutcomeUnknown {
			assert.Equal(t, journal.ResultText(want), rec.Text)
			assert.Empty(t, rec.Code)
		}
	}
	assert.True(t, s.settleCall(list[0], 1, turn.OutcomeOK, "it ran").Late)
	s.infer(2, "go on")
	s.start(3)
	assert.Len(t, s.resolved(), 1, "the model is told")
}

func takenUnapproved(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	out := must(s.ClaimCall(t.Context(), s.claimInput(list[0], 2), true))(t) // its policy has changed
	assert.Equal(t, journal.ClaimTaken, out.Claim)
}

func firstSettles(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	s.claim(list[0], 2) // taken: the workflow abandons it as unknown
	first := s.settleCall(list[0], 2, turn.OutcomeUnknown, "")
	assert.False(t, first.Late)
	assert.Equal(t, journal.ResultText(turn.OutcomeUnknown), first.Text)
	for range 2 {
		late := s.settleCall(list[0], 1, turn.OutcomeOK, "it worked after all")
		assert.True(t, late.Late)
		assert.Equal(t, 1, late.LateCount)
		assert.Equal(t, turn.OutcomeUnknown, late.Outcome)
		assert.Equal(t, first.Text, late.Text)
	}
	assert.Equal(t, 2, s.settleCall(list[0], 1, turn.OutcomeError, "or not").LateCount)
	rec := must(s.Call(t.Context(), "t1", list[0].ID))(t)
	assert.Equal(t, turn.OutcomeUnknown, rec.Outcome)
	assert.Equal(t, 2, rec.LateCount)
	assert.Equal(t, 1, s.count(turn.EventToolCallCompleted))
}

func settleTwice(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	result, at := turn.ToolResult{
		Outcome: turn.OutcomeOK, Text: "the beginning of it", Full: []byte(bigText(100_000, "full")), MediaType: "text/plain",
		SizeBytes: 100_000,
	}, s.now()
	first := must(s.SettleCall(t.Context(), "t1", list[0].ID, 1, result, at))(t)
	full := must(s.GetBlob(t.Context(), first.FullBlob))(t)
	assert.True(t, string(full) == string(result.Full))
	assert.Equal(t, int64(100_000), first.SizeBytes)
	assert.Equal(t, int64(1000), first.DurationMS, "from claim to settlement")
	s.unchanged(func() {
		again := must(s.SettleCall(t.Context(), "t1", list[0].ID, 1, result, at))(t)
		assert.Equal(t, first, again)
	})
}

func sameArguments(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	s.unchanged(func() {
		other := list[0]
		other.Arguments = `{"path":"another"}`
		_, err := s.ClaimCall(t.Context(), s.claimInput(other, 2), false)
		assert.Error(t, err)
	})
}

func callPreviews(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	c := turn.ToolCall{ID: "1.0", Tool: "local/write_file", Arguments: `{"text":"` + strings.Repeat("ä€", 2000) + `"}`}
	s.infer(1, "write", c)
	s.run(c, strings.Repeat("x€", 2000))
	for _, event := range s.events() {
		var data turn.CallEvent
		if event.Kind != turn.EventToolCallStarted && event.Kind != turn.EventToolCallCompleted {
			continue
		}
		require.NoError(t, json.Unmarshal(event.Data, &data))
		preview := data.Arguments + data.Preview
		assert.True(t, strings.HasPrefix(c.Arguments, preview) || strings.HasPrefix(strings.Repeat("x€", 2000), preview))
		assert.True(t, utf8.ValidString(preview) && !strings.ContainsRune(preview, utf8.RuneError), "cut within a rune")
		assert.True(t, len(preview) <= journal.PreviewBytes && len(preview) > journal.PreviewBytes-4, "%d bytes",
			len(preview))
		assert.Equal(t, 1, event.Step)
	}
	rec := must(s.Call(t.Context(), "t1", "1.0"))(t)
	assert.Equal(t, c, rec.Call, "the ledger has the whole arguments")
	assert.Equal(t, c, s.transcript()[1].ToolCalls[0], "and so has the transcript")
}
