package sessionmodel

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

const touchA = `{"text":"s a"}`

// inOrder returns a session of two turns: one with an approval and a question, into which m2 was merged, and one for
// m3.
func inOrder() (*Model, Evidence) {
	m := New("s")
	for i, s := range []Sent{{ID: "m1"}, {ID: "m2"}, {ID: "m3", After: true}} {
		s.Order = i + 1
		m.Take(s)
	}
	d := m.Deciding(Decision{Turn: "t1", Call: "1.0", Arguments: touchA, Verdict: Allow, Allow: true})
	m.Decided(d, true)
	m.Touched("s a")
	r := m.Answering(Reply{Turn: "t1", Question: "q2"})
	m.Answered(r, true)
	chunks := func(kinds ...turn.ChunkKind) (out []turn.Chunk) {
		for i, k := range kinds {
			out = append(out, turn.Chunk{Index: int64(i), Kind: k})
		}
		return out
	}
	call := turn.ToolCall{ID: "1.0", Tool: "local/touch", Arguments: touchA}
	return m, Evidence{
		Messages: []turn.Message{
			{ID: "m1", TurnID: "t1", Role: turn.RoleUser},
			{TurnID: "t1", Step: 1, Role: turn.RoleAssistant, ToolCalls: []turn.ToolCall{call}},
			{TurnID: "t1", Step: 1, Role: turn.RoleTool, CallID: "1.0", Outcome: turn.OutcomeOK},
			{ID: "m2", TurnID: "t1", Role: turn.RoleUser},
			{TurnID: "t1", Step: 2, Role: turn.RoleAssistant, Text: "Which?"},
			{ID: "answer:t1:q2", TurnID: "t1", Role: turn.RoleUser},
			{TurnID: "t1", Step: 3, Role: turn.RoleAssistant, Text: "done m2"},
			{ID: "m3", TurnID: "t2", Role: turn.RoleUser},
			{TurnID: "t2", Step: 1, Role: turn.RoleAssistant, Text: "done m3"},
		},
		Turns: []journal.TurnRecord{
			{ID: "t1", MessageID: "m1", State: turn.StateCompleted, Reason: turn.FinishAnswered, Answer: "done m2"},
			{ID: "t2", MessageID: "m3", State: turn.StateCompleted, Reason: turn.FinishAnswered, Answer: "done m3"},
		},
		Waits: map[string][]journal.RequestRecord{"t1": {
			{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Step: 1},
				Decision: &turn.Decision{Status: turn.StatusAllowed, Allowed: true, By: d.By}},
			{Request: turn.Request{ID: "q2", Kind: turn.RequestQuestion, Step: 2},
				Decision: &turn.Decision{Status: turn.StatusAnswered, By: r.By}},
		}},
		Calls: map[string][]journal.CallRecord{"t1": {{Call: call, Runs: 1, Outcome: turn.OutcomeOK, SettledAt: time.Now()}}},
		Chunks: map[string][]turn.Chunk{
			"t1": chunks(turn.ChunkTurnStarted, turn.ChunkApprovalRequested, turn.ChunkApprovalDecided, turn.ChunkMessageAdded,
				turn.ChunkQuestionAsked, turn.ChunkQuestionAnswered, turn.ChunkMessageAdded, turn.ChunkTurnCompleted),
			"t2": chunks(turn.ChunkTurnStarted, turn.ChunkTurnCompleted),
		},
		Asked: map[string]bool{"m1": true, "m2": true, "m3": true},
	}
}

func TestACorrectSessionHasNoProblems(t *testing.T) {
	m, e := inOrder()
	assert.Empty(t, m.Check(e))
}

func TestTheCheckerReportsProblems(t *testing.T) {
	for says, spoil := range map[string]func(*Model, *Evidence){
		"is lost":                  func(_ *Model, e *Evidence) { e.Messages = slices.Delete(e.Messages, 3, 4) },
		"in the transcript twice":  func(_ *Model, e *Evidence) { e.Messages = append(e.Messages, e.Messages[0]) },
		"was never sent":           func(_ *Model, e *Evidence) { e.Messages[3].ID = "m9" },
		"comes after it":           func(_ *Model, e *Evidence) { e.Messages[0].ID, e.Messages[3].ID = "m2", "m1" },
		"joined that of m1":        func(_ *Model, e *Evidence) { e.Messages[7].TurnID = "t1" },
		"never shown to the model": func(_ *Model, e *Evidence) { e.Asked["m2"] = false },
		"has no turn that is over": func(_ *Model, e *Evidence) { e.Turns[1].State = turn.StateRunning },
		"have no result":           func(_ *Model, e *Evidence) { e.Messages[8].ToolCalls = []turn.ToolCall{{ID: "1.0"}} },
		"these are open: []":       func(_ *Model, e *Evidence) { e.Messages[3].Role = turn.RoleTool },
		"does not end once":        func(_ *Model, e *Evidence) { e.Chunks["t2"] = e.Chunks["t2"][:1] },
		"has the index 7":          func(_ *Model, e *Evidence) { e.Chunks["t1"] = slices.Delete(e.Chunks["t1"], 1, 2) },
		"messages joined and":      func(m *Model, e *Evidence) { e.Chunks["t1"][3].Kind = turn.ChunkTextDelta },
		"is open for ever":         func(_ *Model, e *Evidence) { e.Waits["t1"][0].Decision = nil },
		"nobody has said anything": func(_ *Model, e *Evidence) { e.Messages = slices.Delete(e.Messages, 5, 6) },
		"and these chunks":         func(_ *Model, e *Evidence) { e.Chunks["t1"][2].Kind = turn.ChunkApprovalRequested },
		"call 1.0 ran 2 times":     func(_ *Model, e *Evidence) { e.Calls["t1"][0].Runs = 2 },
		"was denied, and ran": func(_ *Model,
			e *Evidence) {
			e.Waits["t1"][0].Decision = &turn.Decision{Status: turn.StatusDenied}
		},
		"was allowed and never ran":   func(_ *Model, e *Evidence) { e.Calls["t1"] = nil },
		"was applied 2 times":         func(_ *Model, e *Evidence) { e.Waits["t2"] = e.Waits["t1"][:1] },
		"was applied to 1.0 of":       func(m *Model, _ *Evidence) { m.decisions[0].Call = "1.1" },
		"accepted and is not record":  func(_ *Model, e *Evidence) { e.Waits["t1"][0].Decision.By = "somebody" },
		"was applied to q2 of":        func(m *Model, _ *Evidence) { m.replies[0].Question = "q1" },
		"before anybody had allowed":  func(m *Model, _ *Evidence) { m.Touched("s b") },
		`"s a" ran 2 times`:           func(m *Model, _ *Evidence) { m.Touched("s a") },
		"2 times, and the journal":    func(m *Model, _ *Evidence) { m.Touched("s a") },
		"accepted and is not in the":  func(_ *Model, e *Evidence) { e.Messages[5].ID = "answer:t1:q9" },
		`and its answer is "done m4"`: func(_ *Model, e *Evidence) { e.Turns[1].Answer = "done m4" },
	} {
		t.Run(says, func(t *testing.T) {
			m, e := inOrder()
			spoil(m, &e)
			problems := m.Check(e)
			require.NotEmpty(t, problems)
			assert.Condition(t, func() bool {
				return slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, says) })
			}, "%q says nothing of %q", problems, says)
		})
	}
}
