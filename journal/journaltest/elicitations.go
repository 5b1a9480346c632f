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

var elicitationPromises = []promise{
	{"an elicitation is kept with its response", elicited},
	{"an elicitation belongs to a call that ran, and is bounded", elicitRefused},
	{"a response that does not fit its elicitation is refused", replyRefused},
	{"an elicitation ends with its turn", elicitCancelled},
}

func elicitationOf(c turn.ToolCall, n string) turn.Request {
	return turn.Request{
		ID: "e" + c.ID + "." + n, Kind: turn.RequestElicitation, Step: stepOf(c), Tool: "what the caller says", Call: c.ID,
		Question: "which branch?",
		Elicitation: &turn.Elicitation{
			Key: "branch", Message: "which <branch>?",
			Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","title":"a <b> & c"}}}`),
		},
	}
}

func replyOf(content string) turn.Decision {
	return turn.Decision{ID: "e1.0.1", Status: turn.StatusAnswered, By: "ada", At: start,
		Response: &turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: json.RawMessage(content)}}
}

// suspendedFirst is a turn with a call that is suspended for an elicitation.
func suspendedFirst(t *testing.T, open func() *journal.DB) (*script, turn.ToolCall) {
	s, list := asked(t, open, 1)
	s.claim(list[0], 1)
	s.suspend(list[0], 1, "what it goes on with")
	return s, list[0]
}

func elicited(t *testing.T, open func() *journal.DB) {
	for _, content := range []string{`{"name":"<main> & more"}`, `{"name":"` + strings.Repeat("x", 5000) + `"}`} {
		s, c := suspendedFirst(t, open)
		r := elicitationOf(c, "1")
		r.Elicitation.Message += bigText(len(content), "message")
		s.ask(r)
		s.unchanged(func() { s.ask(r) })
		assert.Equal(t, turn.StateWaiting, s.turnState())
		r = journal.CleanRequest(r)
		r.Tool = "local/read_file" // the journal takes the tool from the ledger
		open := must(s.PendingRequests(t.Context(), "s", 10))(t)
		require.Len(t, open, 1)
		r.Session, r.Turn, r.AskedAt = "s", "t1", open[0].AskedAt
		assert.Equal(t, r, open[0])
		output := s.requestEvents(turn.EventQuestionAsked)
		require.Len(t, output, 1)
		assert.Equal(t, r.Elicitation.Message, output[0].Elicitation.Message)
		assert.JSONEq(t, string(r.Elicitation.Schema), string(output[0].Elicitation.Schema))

		s.decide(replyOf(content))
		want := replyOf(content)
		want.Response.Key = "branch"
		requests := must(s.Requests(t.Context(), "t1"))(t)
		assert.Equal(t, &want, requests[0].Decision)
		ruled, err := s.Ask(t.Context(), s.session, s.turn, []turn.Request{elicitationLike(r)}, s.now()) // the turn was reset
		require.NoError(t, err)
		assert.Equal(t, []turn.Decision{want}, ruled)
		output = s.requestEvents(turn.EventQuestionAnswered)
		require.Len(t, output, 1)
		assert.JSONEq(t, content, string(output[0].Decision.Response.Content))
		assert.Equal(t, turn.StateRunning, s.turnState())
		s.unchanged(func() { s.decide(turn.Decision{ID: r.ID, Status: turn.StatusDenied}) })
		assert.Equal(t, journal.ClaimGranted, s.claim(c, 2).Claim, "and the call goes on")
	}
}

// elicitationLike returns the same request as another process may ask it: spaces in its schema are insignificant.
func elicitationLike(r turn.Request) turn.Request {
	q := *r.Elicitation
	q.Schema = json.RawMessage(" " + string(q.Schema) + "\n")
	r.Elicitation = &q
	return r
}

func elicitRefused(t *testing.T, open func() *journal.DB) {
	s, c := suspendedFirst(t, open)
	refused := func(change func(*turn.Request)) error {
		t.Helper()
		r := elicitationOf(c, "1")
		q := *r.Elicitation
		r.Elicitation = &q
		change(&r)
		var err error
		s.unchanged(func() { err = s.askFails(r) })
		assert.Error(t, err)
		return err
	}
	refused(func(r *turn.Request) { r.Elicitation = nil })
	refused(func(r *turn.Request) { r.Call = "" })
	refused(func(r *turn.Request) { r.Elicitation.Schema = json.RawMessage(`{`) })
	refused(func(r *turn.Request) { r.Elicitation.URL = strings.Repeat("x", journal.MaxElicitationBytes) })
	assert.ErrorIs(t, refused(func(r *turn.Request) { r.Call = "1.7" }), journal.ErrConflict)
	s.ask(elicitationOf(c, "1"))
	assert.ErrorIs(t, refused(func(r *turn.Request) { r.Elicitation.Message = "something else" }), journal.ErrConflict)
	question := questionOf("q1", 1)
	question.Elicitation, question.Call = &turn.Elicitation{Message: "the model asks nothing of the kind"}, "1.0"
	s.ask(question)
	requests := must(s.Requests(t.Context(), "t1"))(t)
	want := questionOf("q1", 1)
	want.Session, want.Turn, want.AskedAt = "s", "t1", requests[1].AskedAt
	assert.Equal(t, want, requests[1])
}

func replyRefused(t *testing.T, open func() *journal.DB) {
	s, c := suspendedFirst(t, open)
	s.ask(elicitationOf(c, "1"))
	s.unchanged(func() {
		for _, change := range []func(*turn.Decision){
			func(r *turn.Decision) { r.Response = nil },
			func(r *turn.Decision) { r.Response.Key = "another" },
			func(r *turn.Decision) { r.Response.Action = "perhaps" },
			func(r *turn.Decision) { r.Response.Content = json.RawMessage(`{"a":`) },
			func(r *turn.Decision) {
				r.Response.Content = json.RawMessage(`"` + strings.Repeat("x", turn.MaxResponseBytes) + `"`)
			},
			func(r *turn.Decision) { r.Status, r.Allowed = turn.StatusAllowed, true },
			func(r *turn.Decision) { r.Allowed = true },
		} {
			r := replyOf(`{"name":"main"}`)
			change(&r)
			assert.Error(t, s.decideFails(r), "%+v", r)
		}
	})
	r := replyOf(`{"name":"main"}`)
	r.Response.Action = turn.ElicitationDecline
	s.decide(r)
	requests := must(s.Requests(t.Context(), "t1"))(t)
	assert.Equal(t, &turn.ElicitationResponse{Key: "branch", Action: turn.ElicitationDecline},
		requests[0].Decision.Response, "who says no says nothing else")
}

func elicitCancelled(t *testing.T, open func() *journal.DB) {
	s, c := suspendedFirst(t, open)
	s.ask(elicitationOf(c, "1"), elicitationOf(c, "2"), elicitationOf(c, "3"))
	s.decide(turn.Decision{ID: "e1.0.1", Status: turn.StatusExpired},
		turn.Decision{ID: "e1.0.2", Status: turn.StatusDenied})
	s.finish()
	requests := must(s.Requests(t.Context(), "t1"))(t)
	for i, want := range []turn.DecisionStatus{turn.StatusExpired, turn.StatusDenied, turn.StatusCancelled} {
		assert.Equal(t, want, requests[i].Decision.Status)
		assert.Nil(t, requests[i].Decision.Response)
	}
	assert.Len(t, s.requestEvents(turn.EventQuestionAnswered), 3, "a reader sees an end of each")
}
