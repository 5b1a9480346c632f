package activities

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// hurried is a journal in which a person answers what was put before them right after the first look at it.
type hurried struct {
	journal.Journal
	t      *testing.T
	answer func(turn.Wait) turn.Ruling
}

func (h *hurried) Ask(ctx context.Context, in journal.AskInput) ([]turn.Ruling, error) {
	ruled, err := h.Journal.Ask(ctx, in)
	if len(ruled) == 0 && h.answer != nil {
		say := journal.DecideInput{Session: in.Session, Turn: in.Turn, Rulings: []turn.Ruling{h.answer(in.Waits[0])}, At: time.Now()}
		require.NoError(h.t, h.Journal.Decide(ctx, say))
		h.answer = nil
	}
	return ruled, err
}

// holds is a tool host whose server holds its call for a question, no longer than until done.
type holds struct{ said func(turn.Reply, error) }

func (holds) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (h holds) Call(_ context.Context, r turn.ToolRequest) (turn.ToolResult, error) {
	done := make(chan struct{})
	close(done)
	h.said(r.Hold(turn.Inquiry{Key: "1", Message: "Sure?", Schema: json.RawMessage(`{"type":"object"}`)}, done))
	return turn.ToolResult{Outcome: turn.OutcomeOK, Text: "done"}, nil
}

// A person was told that the answer counts, and so it does; and where nobody has said anything, the question is closed.
func TestAnAnswerInTheLastMomentIsHeard(t *testing.T) {
	accept := func(w turn.Wait) turn.Ruling {
		return turn.Ruling{ID: w.ID, Verdict: turn.VerdictAnswered, By: "ann", Reply: &turn.Reply{Action: turn.ReplyAccept, Content: json.RawMessage(`{}`)}}
	}
	for name, answer := range map[string]func(turn.Wait) turn.Ruling{"answered": accept, "not answered": nil} {
		t.Run(name, func(t *testing.T) {
			s, in := claimable(t)
			in.Attempt = 1
			var reply turn.Reply
			var said error
			a, err := New(Options{Journal: &hurried{s, t, answer}, Tools: holds{func(r turn.Reply, err error) { reply, said = r, err }}})
			require.NoError(t, err)
			_, err = a.CallTool(t.Context(), in)
			require.NoError(t, err)
			list, err := s.Waits(t.Context(), in.Turn)
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.NotNil(t, list[0].Ruling)
			if answer == nil {
				require.ErrorIs(t, said, errNobodyAnswered)
				assert.Equal(t, turn.VerdictExpired, list[0].Ruling.Verdict)
				return
			}
			require.NoError(t, said)
			assert.Equal(t, turn.Reply{Key: "1", Action: turn.ReplyAccept, Content: json.RawMessage(`{}`)}, reply)
			assert.Equal(t, workflows.HeldID(in.Call.ID, 1, 1), list[0].ID)
		})
	}
}
