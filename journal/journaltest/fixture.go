package journaltest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// start is the time at which every fixture begins.
var start = time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)

// must returns a function that fails the test unless err is nil, and returns v.
func must[V any](v V, err error) func(t testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// script calls a journal as the activities do.
type script struct {
	*testing.T
	*journal.DB
	session, turn string
	tenant        string
	head          turn.Head
	at            time.Time
}

// newScript begins a turn with its message in session "s".
func newScript(t *testing.T, j *journal.DB, turnID string) *script {
	t.Helper()
	s := &script{T: t, DB: j, session: "s", turn: turnID, at: start}
	s.begin()
	return s
}

func (s *script) beginInput() turn.BeginInput {
	return turn.BeginInput{
		Session: s.session, Tenant: s.tenant, Turn: s.turn, WorkflowID: "wf-" + s.session, RunID: "run-" + s.turn,
		Agent:   "agent",
		Message: turn.UserMessage{ID: "m-" + s.turn, Text: "question of " + s.turn},
		Config:  json.RawMessage(`{"pin":"` + s.turn + `"}`), At: s.now(),
	}
}

func (s *script) begin() journal.BeginResult {
	s.Helper()
	out := must(s.Begin(s.Context(), s.beginInput()))(s)
	s.head = out.Head
	return out
}

// turnOf returns the last turn of a session, or begins one in a fork, which has none of its own yet.
func (s *script) turnOf(session string) string {
	s.Helper()
	rec := must(s.Session(s.Context(), session))(s)
	if rec.LastTurn.ID == "" {
		f := &script{T: s.T, DB: s.DB, session: session, turn: "t of " + session, tenant: s.tenant, at: s.at}
		rec.LastTurn = f.begin().Turn
	}
	return rec.LastTurn.ID
}

func (s *script) now() time.Time {
	s.at = s.at.Add(time.Second)
	return s.at
}

func (s *script) key(step int) journal.StepKey { return journal.StepKey{Turn: s.turn, Step: step} }

func (s *script) startInput(step int, results ...turn.CallOutcome) journal.StartInference {
	return journal.StartInference{Session: s.session, Key: s.key(step), Expect: s.head, Outcomes: results, Model: "model",
		At: s.now()}
}

// start opens an attempt from the script's head and moves the head to its base.
func (s *script) start(step int, results ...turn.CallOutcome) journal.Inference {
	s.Helper()
	out := must(s.StartInference(s.Context(), s.startInput(step, results...)))(s)
	s.head = out.Base
	return out
}

func (s *script) settleInput(step, attempt int, text string, calls ...turn.ToolCall) journal.SettleInference {
	in := journal.SettleInference{
		Session: s.session, Key: s.key(step), Attempt: attempt, Base: s.head, At: s.now(), Model: "model",
		Message: turn.Message{Text: text, ToolCalls: calls},
		Answer: turn.Completion{
			Text: text, FinishReason: "stop", Model: "model-1", Usage: turn.Usage{InputTokens: 10, OutputTokens: int64(step)},
			Raw: json.RawMessage(fmt.Sprintf(`[{"delta":%q}]`, text)),
		},
	}
	for _, c := range calls {
		in.Answer.ToolCalls = append(in.Answer.ToolCalls,
			turn.ToolCall{WireID: c.WireID, Tool: c.Tool, Arguments: c.Arguments})
	}
	return in
}

// infer starts and settles a step whose completion asks for the calls.
func (s *script) infer(step int, text string, calls ...turn.ToolCall) journal.Inference {
	s.Helper()
	attempt := s.start(step).Attempt
	out := must(s.SettleInference(s.Context(), s.settleInput(step, attempt, text, calls...)))(s)
	s.head = out.Head
	return out
}

// calls makes n calls of a step.
func calls(step, n int) (list []turn.ToolCall) {
	for i := range n {
		list = append(list, turn.ToolCall{
			ID: fmt.Sprintf("%d.%d", step, i), WireID: fmt.Sprintf("wire-%d-%d", step, i), Tool: "local/read_file",
			Arguments: fmt.Sprintf(`{"path":"file-%d"}`, i),
		})
	}
	return list
}

func resultsOf(list ...turn.ToolCall) (results []turn.CallOutcome) {
	for _, c := range list {
		results = append(results, turn.CallOutcome{CallID: c.ID})
	}
	return results
}

func (s *script) claimInput(c turn.ToolCall, attempt int) journal.CallRecord {
	return journal.CallRecord{Turn: s.turn, Step: stepOf(c), Call: c, Attempt: attempt, Worker: "w", ClaimedAt: s.now()}
}

func stepOf(c turn.ToolCall) (step int) {
	_, _ = fmt.Sscanf(c.ID, "%d.", &step)
	return step
}

func (s *script) claim(c turn.ToolCall, attempt int) journal.CallRecord {
	s.Helper()
	out := must(s.ClaimCall(s.Context(), s.claimInput(c, attempt), false))(s)
	return out
}

func (s *script) settleCall(c turn.ToolCall, attempt int, outcome turn.Outcome, text string) journal.CallRecord {
	s.Helper()
	out, err := s.SettleCall(s.Context(), s.turn, c.ID, attempt,
		turn.ToolResult{Outcome: outcome, Text: text, SizeBytes: int64(len(text))}, s.now())
	require.NoError(s, err)
	return out
}

func (s *script) run(c turn.ToolCall, text string) {
	s.Helper()
	require.Equal(s, journal.ClaimGranted, s.claim(c, 1).Claim)
	s.settleCall(c, 1, turn.OutcomeOK, text)
}

func (s *script) finishInput() turn.FinishInput {
	return turn.FinishInput{
		Session: s.session, Turn: s.turn,
		Result:   turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered, Answer: "answer"},
		Counters: turn.Counters{Usage: turn.Usage{InputTokens: 5, OutputTokens: 6}, Step: 2, ToolCalls: 1}, At: s.now(),
	}
}

func (s *script) finish() journal.TurnRecord {
	s.Helper()
	out := must(s.Finish(s.Context(), s.finishInput()))(s)
	return out
}

func (s *script) append(step, attempt int, texts ...string) error {
	var list []turn.Event
	for _, text := range texts {
		list = append(list, turn.Event{Kind: turn.EventTextDelta, Text: text, At: s.now()})
	}
	return s.AppendEvents(s.Context(), s.key(step), attempt, list)
}

// events returns the turn's events after checking the invariants of every turn: indexes without gaps, turn_started
// first, nothing after turn_completed, one tool_call_completed for each tool_call_started and after it.
func (s *script) events() []turn.Event {
	s.Helper()
	list := must(s.Events(s.Context(), s.turn, -1, 100_000))(s)
	open := map[string]int{}
	for i, e := range list {
		assert.Equal(s, int64(i), e.Index, "a gap in the indexes")
		assert.Equal(s, s.turn, e.Turn)
		assert.Equal(s, i == 0, e.Kind == turn.EventTurnStarted, "turn_started is the first event and no other")
		if e.Kind == turn.EventTurnCompleted {
			assert.Len(s, list, i+1, "an event after turn_completed")
		}
		var data turn.CallEvent
		switch e.Kind {
		case turn.EventToolCallStarted:
			require.NoError(s, json.Unmarshal(e.Data, &data))
			open[data.CallID]++
			assert.Equal(s, 1, open[data.CallID], "call %s started twice", data.CallID)
		case turn.EventToolCallCompleted:
			require.NoError(s, json.Unmarshal(e.Data, &data))
			assert.Equal(s, 1, open[data.CallID], "call %s completed without a start, or twice", data.CallID)
			open[data.CallID]++
		}
	}
	if n := len(list); n > 0 && list[n-1].Kind == turn.EventTurnCompleted {
		for id, count := range open {
			assert.Equal(s, 2, count, "call %s was never completed", id)
		}
	}
	return list
}

// count returns the number of the turn's events of this kind.
func (s *script) count(kind turn.EventKind) (n int) {
	s.Helper()
	for _, e := range s.events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// transcript returns all messages after checking that the hash chain leads to the session's head.
func (s *script) transcript() []turn.Message {
	s.Helper()
	list := must(s.Messages(s.Context(), s.session, 1, 1<<40))(s)
	var head turn.Head
	for _, m := range list {
		head = journal.Next(head, m)
	}
	assert.Equal(s, s.sessionRecord().Head, head, "the hash chain does not lead to the session's head")
	return list
}

func (s *script) sessionRecord() journal.SessionRecord {
	s.Helper()
	out := must(s.Session(s.Context(), s.session))(s)
	return out
}

// unchanged runs fn and checks that fn has written nothing that a reader of the session can see.
func (s *script) unchanged(fn func()) {
	s.Helper()
	before := s.state()
	fn()
	assert.Equal(s, before, s.state(), "something was written")
}

type state struct {
	Session  journal.SessionRecord
	Messages []turn.Message
	Turns    []journal.TurnRecord
	Events   []turn.Event
	Calls    []journal.CallRecord
	Steps    []journal.Inference
	Waits    []turn.Request
	Rules    []turn.Grant
}

func (s *script) state() state {
	s.Helper()
	out := state{Session: s.sessionRecord(), Messages: s.transcript(), Events: s.events()}
	var err [5]error
	out.Turns, err[0] = s.Turns(s.Context(), s.session)
	out.Calls, err[1] = s.Calls(s.Context(), s.turn)
	out.Steps, err[2] = s.Inferences(s.Context(), s.turn)
	out.Waits, err[3] = s.Requests(s.Context(), s.turn)
	out.Rules, err[4] = s.Grants(s.Context(), s.turn)
	require.Equal(s, [5]error{}, err)
	return out
}
