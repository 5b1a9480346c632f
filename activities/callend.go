package activities

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// suspend keeps what goes on with a call whose server asks for something, and gives its claim back: whoever has the answer
// dispatches it again, on any worker.
func (a *Activities) suspend(ctx context.Context, in workflows.CallInput, result turn.ToolResult) (workflows.CallResult, error) {
	_, err := patiently(context.WithoutCancel(ctx), settleWithin(ctx), func(keep context.Context) (struct{}, error) {
		return struct{}{}, a.journal.SuspendCall(keep, journal.SuspendInput{
			Turn: in.Turn, CallID: in.Call.ID, Attempt: in.Attempt, Continuation: result.Continuation, At: time.Now(),
		})
	})
	if err != nil {
		return workflows.CallResult{}, err
	}
	return a.questions(in, in.Attempt, result), nil
}

// askAgain returns what the ledger has of the dispatch that asked it: that one's end was lost, or the turn was reset to
// before it. Nothing was sent, so the claim is given back.
func (a *Activities) askAgain(ctx context.Context, in workflows.CallInput, asked int, result turn.ToolResult) (workflows.CallResult, error) {
	if err := a.release(ctx, in); err != nil {
		return workflows.CallResult{}, err
	}
	return a.questions(in, asked, result), nil
}

// questions is the receipt of a call that waits for answers.
func (a *Activities) questions(in workflows.CallInput, asked int, result turn.ToolResult) workflows.CallResult {
	for i := range result.Elicitations {
		result.Elicitations[i].Message = a.redact(result.Elicitations[i].Message)
	}
	return workflows.CallResult{
		CallID: in.Call.ID, Tool: in.Tool.ID, Arguments: in.Call.Arguments,
		Elicitations: result.Elicitations, Asked: asked, StickyQueue: a.homeOf(in),
	}
}

// lateWithin bounds how long the end of a call that was given up is tried to be recorded.
const lateWithin = time.Minute

// resolve records the end of a call that was given up as unknown. The journal keeps it beside what the transcript says.
func (a *Activities) resolve(ctx context.Context, in workflows.CallInput, result turn.ToolResult) {
	result = a.presentable(result)
	_, err := patiently(ctx, lateWithin, func(ctx context.Context) (journal.CallRecord, error) {
		return a.journal.SettleCall(ctx, journal.SettleInput{
			Turn: in.Turn, CallID: in.Call.ID, Attempt: in.Attempt, Result: result, Taints: in.Tool.Taints, At: time.Now(),
		})
	})
	if err != nil {
		logFailure(ctx, asTurnError(err))
	}
}

// presentable is a result as it is kept and shown: without secrets, and with the names of what is kept beside it.
func (a *Activities) presentable(r turn.ToolResult) turn.ToolResult {
	r.Text = a.redact(r.Text)
	switch {
	case r.MediaType == "application/json":
		r.Full = []byte(a.secrets.JSON(string(r.Full)))
	case r.Full != nil && utf8.Valid(r.Full): // text, whatever its type is called
		r.Full = []byte(a.redact(string(r.Full)))
	}
	var notes []string
	if r.Full != nil {
		notes = append(notes, fmt.Sprintf("[the whole, %d bytes, is the artifact %s: read on with local/read_artifact]", len(r.Full), journal.HashOf(r.Full)))
	}
	for _, m := range r.Media {
		notes = append(notes, fmt.Sprintf("[%s, %d bytes, is the artifact %s]", m.Type, len(m.Data), journal.HashOf(m.Data)))
	}
	if len(notes) == 0 {
		return r
	}
	note := "\n" + strings.Join(notes, "\n")
	if r.Full != nil { // the text may be as long as it may be
		r.Text = turn.Truncate(r.Text, max(max(len(r.Text), leastResult)-len(note), leastResult/2))
	}
	r.Text += note
	return r
}

// leastResult is the least that runtime.max_result_bytes can be, in bytes: a shorter text was not cut, but stands for
// something that is no text.
const leastResult = 1024

// noting takes a call's progress to the readers of its turn, the latest word where the journal is slower than the server.
// Calls inside a workflow task are too short for that. done waits for what is being written.
func (a *Activities) noting(ctx context.Context, in workflows.CallInput) (note func(turn.ToolProgress), done func()) {
	if local(ctx) {
		return nil, func() {}
	}
	latest, ended := make(chan turn.ToolProgress, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case p := <-latest:
				p.Message = a.redact(p.Message)
				if err := a.journal.NoteCall(ctx, in.Turn, in.Call.ID, in.Attempt, p, time.Now()); err != nil && ctx.Err() == nil {
					logFailure(ctx, asTurnError(err))
				}
			}
		}
	}()
	note = func(p turn.ToolProgress) {
		select {
		case <-latest: // an older word that nobody has taken
		default:
		}
		select {
		case latest <- p:
		default:
		}
	}
	return note, func() { cancel(); <-ended }
}
