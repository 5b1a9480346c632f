package activities

import (
	"context"
	"errors"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Finish settles the turn: results that the transcript lacks, its row and its last chunk.
func (a *Activities) Finish(ctx context.Context, in workflows.FinishInput) (workflows.FinishResult, error) {
	record, err := a.journal.Finish(ctx, journal.FinishInput{
		Session: in.Session, Turn: in.Turn, Results: a.results(in.Results), Messages: said(in.Messages), State: in.Ending.State, Reason: in.Ending.Reason,
		Code: in.Ending.Code, Message: in.Ending.Message, Answer: turn.Cut(in.Ending.Answer, answerKept), Usage: in.Counters.Usage,
		Steps: in.Counters.Step, Calls: in.Counters.ToolCalls, At: time.Now(),
	})
	if errors.Is(err, journal.ErrNotFound) {
		// The turn was cancelled while it began, and never got into the journal: there is nothing to settle.
		return workflows.FinishResult{Version: workflows.WireVersion, State: in.Ending.State}, nil
	}
	res := workflows.FinishResult{Version: workflows.WireVersion, State: record.State}
	if record.State == turn.StateCancelled && record.Answer != "" {
		res.Answer = a.redact(record.Answer)
	}
	return res, failure(ctx, err)
}
