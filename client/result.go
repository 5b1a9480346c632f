package client

import (
	"context"
	"errors"
	"strings"

	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Result is the result of a turn, with its tool calls.
type Result struct {
	workflows.Result
	// Calls are the turn's tool calls in the order of its steps, with what the model was shown of their results. They come
	// from the journal: a client without one has none.
	Calls []Call `json:"calls,omitempty"`
}

// Result returns a turn's result in the journal, without waiting: its State says whether the turn is running, waiting
// or has ended.
//
// Errors: ErrNotFound if no worker has begun the turn, or none has taken the message that t names.
func (c *Client) Result(ctx context.Context, t Turn) (Result, error) {
	if c.journal == nil {
		return Result{}, ErrNoJournal
	}
	if t.MessageID != "" {
		row, err := c.journal.Delivered(ctx, t.Session, t.MessageID)
		if err != nil {
			return Result{}, err
		}
		t.ID = row.ID
	}
	r, err := c.journalResult(ctx, t.ID)
	if err != nil {
		return Result{Result: r}, err
	}
	return c.withCalls(ctx, r)
}

// withCalls adds the turn's calls to its result.
func (c *Client) withCalls(ctx context.Context, r workflows.Result) (Result, error) {
	if c.journal == nil || r.Turn == "" {
		return Result{Result: r}, nil
	}
	calls, err := c.journal.Calls(ctx, r.Turn)
	if errors.Is(err, ErrNotFound) { // only Temporal has the turn
		err = nil
	}
	return Result{Result: r, Calls: calls}, err
}

// journalResult returns the result of a turn from the journal, which keeps it longer than Temporal does. The answer in
// the journal's record of the turn may be truncated. journalResult then takes the whole answer from the last settled
// inference or, if a turn ended in the middle of one, from its streamed text.
func (c *Client) journalResult(ctx context.Context, turnID string) (workflows.Result, error) {
	row, err := c.journal.Turn(ctx, turnID)
	if err != nil {
		return workflows.Result{}, err
	}
	steps, err := c.journal.Inferences(ctx, turnID)
	if err != nil {
		return workflows.Result{}, err
	}
	r := workflows.Result{
		Version: workflows.WireVersion, Session: row.Session, Turn: row.ID, State: row.State, FinishReason: row.Reason,
		Code: row.Code, Message: row.Message, Usage: row.Usage, Steps: row.Steps, ToolCalls: row.Calls,
	}
	lastText := ""
	for _, i := range steps {
		r.Model = i.Model
		if i.Settled {
			lastText = i.Message.Text
		}
	}
	r.Answer, r.Truncated = completeAnswer(row.Answer, lastText)
	if r.Truncated {
		streamed, err := c.streamedText(ctx, turnID)
		if err != nil {
			return r, err
		}
		r.Answer, r.Truncated = completeAnswer(row.Answer, streamed)
	}
	return r, nil
}

// streamedText returns the last text of the model in the events of a turn. Events also have the text of an inference
// that was not settled.
func (c *Client) streamedText(ctx context.Context, turnID string) (string, error) {
	var reader turn.Reader
	for r := (follow.TurnReader{Journal: c.journal, Turn: turnID, After: -1}); ; {
		events, err := r.Next(ctx)
		if err != nil || len(events) == 0 {
			return reader.Text(), err
		}
		for _, event := range events {
			reader.Add(event)
		}
	}
}

// completeAnswer returns text if preview, which ends in an ellipsis, is its truncated beginning. Otherwise it returns
// preview, and whether that is truncated.
func completeAnswer(preview, text string) (answer string, truncated bool) {
	beginning, hasEllipsis := strings.CutSuffix(preview, "…")
	switch {
	case !hasEllipsis:
		return preview, false
	case len(text) > len(beginning) && strings.HasPrefix(text, beginning):
		return text, false
	}
	return preview, len(preview) > maxUntruncatedAnswer
}

// maxUntruncatedAnswer is the length of an answer, in bytes, that the journal never truncates: an ellipsis at its end
// is the model's own.
const maxUntruncatedAnswer = 1 << 10
