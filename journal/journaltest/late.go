package journaltest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

var latePromises = []promise{
	{"the model gets the late result of an unknown call once", toldLate},
	{"a late result is told in a later turn of the same session only", toldElsewhere},
	{"a repeated attempt keeps its notices and adds new ones", toldAgain},
	{"a late result that changes nothing is not told", noNews},
	{"many late results are told a part at a time", toldInParts},
	{"the model gets what the user took back once", toldTakenBack},
}

func toldTakenBack(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.run(list[0], "written")
	require.ErrorIs(t, s.TakeBack(t.Context(), "none", journal.TakenBack{Commit: "c"}), journal.ErrNotFound)
	back := journal.TakenBack{Commit: "c1", Subject: "edit a.go", Call: "t1/1.0", Files: []string{"a.go"}}
	for range 2 {
		require.NoError(t, s.TakeBack(t.Context(), s.session, back))
	}
	require.NoError(t, s.TakeBack(t.Context(), s.session, journal.TakenBack{Commit: "c0", Subject: "setup", Files: []string{"b"}}))
	in := s.startInput(2, resultsOf(list...)...)
	in.Messages = joined("j1")
	s.head = must(s.StartInference(t.Context(), in))(t).Base
	messages := s.transcript()
	require.Len(t, messages, 5)
	notice := messages[3]
	assert.Equal(t, []any{turn.RoleUser, 2}, []any{notice.Role, notice.Step})
	for _, says := range []string{"edit a.go (call 1.0): a.go\n", "setup: b\n"} {
		assert.Contains(t, notice.Text, says)
	}
	assert.Equal(t, "j1", messages[4].ID, "the user has the last word")
	in.Expect = s.head
	again := must(s.StartInference(t.Context(), in))(t)
	assert.Equal(t, s.head, again.Base, "the next attempt has the notice already")
	var events []turn.WorkspaceEvent
	for _, e := range s.events() {
		if e.Kind == turn.EventWorkspaceRewound {
			var data turn.WorkspaceEvent
			require.NoError(t, json.Unmarshal(e.Data, &data))
			events = append(events, data)
		}
	}
	assert.Equal(t, []turn.WorkspaceEvent{{CallID: "1.0", Commit: "c1", Files: []string{"a.go"}}, {Commit: "c0", Files: []string{"b"}}},
		events)
	assert.True(t, must(s.HasEvent(t.Context(), s.turn, turn.EventWorkspaceRewound))(t))
	assert.False(t, must(s.HasEvent(t.Context(), s.turn, turn.EventWorkspaceMerged))(t))
}

// unknown claims a call that the workflow then abandons, as the transcript will say.
func (s *script) unknown(c turn.ToolCall) {
	s.Helper()
	s.claim(c, 1)
	s.settleCall(c, 1, turn.OutcomeUnknown, "")
}

// resolved returns the tool_call_late_result events.
func (s *script) resolved() (list []turn.CallEvent) {
	s.Helper()
	for _, e := range s.events() {
		if e.Kind == turn.EventToolCallLateResult {
			var data turn.CallEvent
			require.NoError(s, json.Unmarshal(e.Data, &data))
			list = append(list, data)
		}
	}
	return list
}

// notices returns the IDs of the transcript's messages, from seq on, that report late results.
func (s *script) notices() (ids []string) {
	s.Helper()
	for _, m := range s.transcript() {
		if strings.HasPrefix(m.ID, "late:") {
			assert.Equal(s, turn.RoleUser, m.Role)
			assert.Contains(s, m.Text, "Notice of the system, not of the user")
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// toldLate checks the transcript after late results. Calls 1.0 and 1.1 are settled as unknown and 1.2 on time. Then 1.1
// ends after all, and step 2 begins.
func toldLate(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 3)
	s.unknown(list[0])
	s.unknown(list[1])
	s.run(list[2], "on time")
	before := s.head
	result := turn.ToolResult{Outcome: turn.OutcomeOK, Text: bigText(3000, "done after all"),
		Full: []byte("the whole of it"), Media: []turn.Media{picture}}
	s.settleMedia(list[1], result)
	in := s.startInput(2, resultsOf(list...)...)
	in.Messages = joined("j1")
	base := must(s.StartInference(t.Context(), in))(t)
	messages := s.transcript()
	require.Len(t, messages, 7)
	for i, c := range list {
		assert.Equal(t, c.ID, messages[2+i].CallID, "results stay together and in order")
	}
	assert.Equal(t, turn.OutcomeUnknown, messages[3].Outcome, "what was said stays said")
	notice := messages[5]
	assert.Equal(t, journal.LateID("t1", "1.1", 1), notice.ID)
	assert.Equal(t, []any{turn.RoleUser, 2, "t1"}, []any{notice.Role, notice.Step, notice.TurnID})
	for _, says := range []string{
		"Notice of the system, not of the user", "1.1", "local/read_file", "is ok", journal.CleanText(result.Text),
		journal.HashOf([]byte("the whole of it")), journal.HashOf(picture.Data),
	} {
		assert.Contains(t, notice.Text, says)
	}
	assert.Equal(t, "j1", messages[6].ID, "the user has the last word")
	assert.Equal(t, s.sessionRecord().Head, base.Base)
	data := s.resolved()
	require.Len(t, data, 1)
	assert.Equal(t, []any{"1.1", turn.OutcomeOK}, []any{data[0].CallID, data[0].Outcome})

	in.Expect = before
	again := must(s.StartInference(t.Context(), in))(t)
	assert.Equal(t, base.Base, again.Base)
	s.head = again.Base
	_ = must(s.SettleInference(t.Context(), s.settleInput(2, 2, "I see")))(t)
	s.finish()
	s.turn = "t2"
	s.begin()
	s.start(1)
	assert.Len(t, s.notices(), 1)
}

func toldElsewhere(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	f := s.fork(1, "f")
	s.finish() // the call is unknown from here on
	g := s.fork(3, "g")
	assert.True(t, s.settleCall(list[0], 1, turn.OutcomeError, "it went wrong").Late)
	for _, other := range []*script{f, g} {
		other.begin()
		other.start(1)
		assert.Empty(t, other.notices())
	}
	s.turn = "t2"
	s.begin()
	assert.Empty(t, s.notices(), "a turn begins with its message")
	s.start(1)
	assert.Equal(t, []string{journal.LateID("t1", "1.0", 1)}, s.notices())
	assert.Contains(t, s.transcript()[4].Text, "is error")
	assert.Len(t, s.resolved(), 1, "a client that follows this turn gets the event")
}

func toldAgain(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 2)
	s.unknown(list[0])
	s.unknown(list[1])
	s.settleCall(list[0], 1, turn.OutcomeOK, "first")
	in := s.startInput(2, resultsOf(list...)...)
	first := must(s.StartInference(t.Context(), in))(t)
	s.settleCall(list[1], 1, turn.OutcomeOK, "second")
	second, err := s.StartInference(t.Context(), in) // the worker died
	require.NoError(t, err)
	assert.Equal(t, first.Base.Seq+1, second.Base.Seq)
	assert.Equal(t, s.sessionRecord().Head, second.Base)
	assert.Equal(t, []string{journal.LateID("t1", "1.0", 1), journal.LateID("t1", "1.1", 1)}, s.notices())
	third := must(s.StartInference(t.Context(), in))(t)
	assert.Equal(t, second.Base, third.Base)
	s.head = third.Base
	_ = must(s.SettleInference(t.Context(), s.settleInput(2, 3, "I see")))(t)
	s.settleCall(list[1], 1, turn.OutcomeError, "or not")
	s.settleCall(list[1], 1, turn.OutcomeOK, "second")
	_ = must(s.StartInference(t.Context(), in))(t)
	assert.Len(t, s.notices(), 2, "one a call and attempt")
}

func noNews(t *testing.T, open func() *journal.DB) {
	s, list := asked(t, open, 4)
	s.run(list[0], "known")
	s.settleCall(list[0], 1, turn.OutcomeError, "late, of a call that is known")
	s.unknown(list[1])
	s.settleCall(list[1], 1, turn.OutcomeUnknown, "still unknown")
	s.unknown(list[2])
	s.unknown(list[2]) // a repetition of the settlement
	s.unknown(list[3])
	in := s.startInput(2, resultsOf(list...)...)
	in.Messages = []turn.UserMessage{{ID: journal.LateID("t1", "1.3", 1), Text: "a user may call a message anything"}}
	_ = must(s.StartInference(t.Context(), in))(t)
	s.head = s.sessionRecord().Head
	s.settleCall(list[3], 1, turn.OutcomeOK, "done")
	_ = must(s.SettleInference(t.Context(), s.settleInput(2, 1, "I see")))(t)
	s.head = s.sessionRecord().Head
	s.start(3)
	assert.Empty(t, s.resolved(), "and the turn goes on")
}

func toldInParts(t *testing.T, open func() *journal.DB) {
	const n = journal.MaxNotices + 3
	s, list := asked(t, open, n)
	for _, c := range list {
		s.unknown(c)
		s.settleCall(c, 1, turn.OutcomeOK, "done")
	}
	s.start(2, resultsOf(list...)...)
	assert.Len(t, s.notices(), journal.MaxNotices)
	_ = must(s.SettleInference(t.Context(), s.settleInput(2, 1, "I see")))(t)
	s.head = s.sessionRecord().Head
	s.start(3)
	assert.Len(t, s.notices(), n)
}
