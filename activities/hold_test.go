package activities

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// hurried is a journal in which a user decides each request right after CallTool first reads it.
type hurried struct {
	journal.Journal
	t      *testing.T
	answer func(turn.Request) turn.Decision
}

func (h *hurried) Ask(ctx context.Context, in journal.AskInput) ([]turn.Decision, error) {
	ruled, err := h.Journal.Ask(ctx, in)
	if len(ruled) == 0 && h.answer != nil {
		say := journal.DecideInput{Session: in.Session, Turn: in.Turn, Decisions: []turn.Decision{h.answer(in.Requests[0])}, At: time.Now()}
		require.NoError(h.t, h.Journal.Decide(ctx, say))
		h.answer = nil
	}
	return ruled, err
}

// holds is a tool host whose server holds its call for an elicitation that has already ended.
type holds struct {
	said func(turn.ElicitationResponse, error)
}

func (holds) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (h holds) Call(_ context.Context, r turn.ToolRequest) (turn.ToolResult, error) {
	done := make(chan struct{})
	close(done)
	h.said(r.Hold(turn.Elicitation{Key: "1", Message: "Sure?", Schema: json.RawMessage(`{"type":"object"}`)}, done))
	return turn.ToolResult{Outcome: turn.OutcomeOK, Text: "done"}, nil
}

// TestAnAnswerInTheLastMomentIsHeard checks that a response counts if the journal accepted it, even at the last moment,
// and that an elicitation without a response expires.
func TestAnAnswerInTheLastMomentIsHeard(t *testing.T) {
	accept := func(w turn.Request) turn.Decision {
		return turn.Decision{ID: w.ID, Status: turn.StatusAnswered, By: "ann", Response: &turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: json.RawMessage(`{}`)}}
	}
	for name, answer := range map[string]func(turn.Request) turn.Decision{"answered": accept, "not answered": nil} {
		t.Run(name, func(t *testing.T) {
			s, in := claimable(t)
			in.Attempt = 1
			var response turn.ElicitationResponse
			var said error
			a, err := New(Options{Journal: &hurried{s, t, answer}, Tools: holds{func(r turn.ElicitationResponse, err error) { response, said = r, err }}})
			require.NoError(t, err)
			allowed(a, in)
			_, err = a.CallTool(t.Context(), in)
			require.NoError(t, err)
			list, err := s.Requests(t.Context(), in.Turn)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.NotNil(t, list[0].Decision)
			if answer == nil {
				require.ErrorIs(t, said, errNobodyAnswered)
				assert.Equal(t, turn.StatusExpired, list[0].Decision.Status)
				return
			}
			require.NoError(t, said)
			assert.Equal(t, turn.ElicitationResponse{Key: "1", Action: turn.ElicitationAccept, Content: json.RawMessage(`{}`)}, response)
			assert.Equal(t, workflows.LegacyElicitationID(in.Call.ID, 1, 1), list[0].ID)
		})
	}
}

// asked is a journal in which a user responds after nine minutes.
type asked struct {
	slowJournal
	at time.Time
}

func (*asked) StepMessage(context.Context, journal.StepKey) (turn.Message, error) {
	return turn.Message{ToolCalls: []turn.ToolCall{{ID: "1.0"}}}, nil
}

func (*asked) SettleCall(_ context.Context, in journal.SettleInput) (journal.CallRecord, error) {
	return journal.CallRecord{Outcome: in.Result.Outcome, Text: in.Result.Text}, nil
}

func (j *asked) Ask(_ context.Context, in journal.AskInput) ([]turn.Decision, error) {
	if j.at.IsZero() {
		j.at = time.Now().Add(9 * time.Minute)
	}
	if time.Now().Before(j.at) {
		return nil, nil
	}
	return []turn.Decision{{ID: in.Requests[0].ID, Status: turn.StatusAnswered, Response: &turn.ElicitationResponse{Action: turn.ElicitationAccept}}}, nil
}

// working is a tool host whose server works for two seconds, with an elicitation in between.
type working struct{}

func (working) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (working) Call(ctx context.Context, r turn.ToolRequest) (turn.ToolResult, error) {
	time.Sleep(time.Second)
	response, err := r.Hold(turn.Elicitation{Key: "1"}, ctx.Done())
	time.Sleep(time.Second)
	return turn.ToolResult{Outcome: turn.OutcomeOK, Text: string(response.Action)}, errors.Join(err, ctx.Err())
}

// TestACallDoesNotWorkWhileItIsHeld checks that held time counts against neither the call's timeout nor the turn's
// working time.
func TestACallDoesNotWorkWhileItIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Options{Journal: &asked{}, Tools: working{}})
		require.NoError(t, err)
		in := workflows.CallInput{Call: turn.CallProposal{ToolCall: turn.ToolCall{ID: "1.0"}}, Attempt: 1, Timeout: 3 * time.Second, Budget: time.Minute, ElicitationTimeout: 10 * time.Minute}
		allowed(a, in)
		res, err := a.CallTool(t.Context(), in)
		require.NoError(t, err)
		assert.Equal(t, string(turn.ElicitationAccept), res.Preview)
		assert.Equal(t, 2*time.Second, res.Busy)
	})
}
