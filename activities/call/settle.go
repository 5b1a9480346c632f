package call

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// suspend stores the continuation of a call whose server has sent elicitations, and releases the claim. When the
// responses arrive, the workflow attempts the call again, on any worker.
func (r *Runner) suspend(ctx context.Context, in workflows.CallInput, result turn.ToolResult) error {
	_, err := attempt.RetryUntilAvailable(context.WithoutCancel(ctx), r.attempts.SettleWithin(ctx),
		func(writeCtx context.Context) (struct{}, error) {
			return struct{}{}, r.journal.SuspendCall(writeCtx, in.Turn, in.Call.ID, in.Attempt, result.Continuation)
		})
	return err
}

// repeatElicitations returns elicitations that an earlier attempt has already recorded in the journal, under the
// number of that attempt. It happens if the workflow did not get the earlier attempt's result, or was reset to before
// it. This attempt sent nothing, so repeatElicitations releases its claim.
func (r *Runner) repeatElicitations(ctx context.Context, in workflows.CallInput, recordedBy int,
	result turn.ToolResult) (workflows.CallResult, error) {
	if err := r.release(ctx, in); err != nil {
		return workflows.CallResult{}, err
	}
	return r.suspendedResult(in, recordedBy, result), nil
}

// suspendedResult returns the receipt of a call that waits for responses to the result's elicitations, which the
// attempt recordedBy has recorded.
func (r *Runner) suspendedResult(in workflows.CallInput, recordedBy int,
	result turn.ToolResult) workflows.CallResult {
	for i := range result.Elicitations {
		result.Elicitations[i].Message = r.secrets.String(result.Elicitations[i].Message)
	}
	return workflows.CallResult{
		CallID: in.Call.ID, Tool: in.Tool.ID,
		Elicitations: result.Elicitations, ElicitationAttempt: recordedBy,
	}
}

// lateWithin bounds how long recordLateResult tries to record a late result.
const lateWithin = time.Minute

// recordLateResult records the result of a call whose outcome was already recorded as unknown. The transcript stays as
// it is. An error is only logged.
func (r *Runner) recordLateResult(ctx context.Context, in workflows.CallInput, result turn.ToolResult) {
	result = r.presentable(result)
	_, err := attempt.RetryUntilAvailable(ctx, lateWithin, func(ctx context.Context) (journal.CallRecord, error) {
		return r.settle(ctx, in, result)
	})
	if err != nil {
		attempt.LogFailure(ctx, attempt.AsTurnError(err))
	}
}

// presentable returns a result without secrets in its text and in a whole output that is text, and with a note in its
// text for each artifact, so that the model can read the whole output.
func (r *Runner) presentable(result turn.ToolResult) turn.ToolResult {
	result.Text = r.secrets.String(result.Text)
	switch {
	case result.MediaType == "application/json":
		result.Full = []byte(r.secrets.JSON(string(result.Full)))
	case result.Full != nil && utf8.Valid(result.Full): // text, whatever its media type
		result.Full = []byte(r.secrets.String(string(result.Full)))
	}
	var notes []string
	if result.Full != nil {
		notes = append(notes, fmt.Sprintf("[the whole, %d bytes, is the artifact %s: read on with local/read_artifact]",
			len(result.Full), journal.HashOf(result.Full)))
	}
	for _, m := range result.Media {
		notes = append(notes, fmt.Sprintf("[%s, %d bytes, is the artifact %s]", m.Type, len(m.Data), journal.HashOf(m.Data)))
	}
	if len(notes) == 0 {
		return result
	}
	note := "\n" + strings.Join(notes, "\n")
	if result.Full != nil { // Text is at the limit of a result, so the note takes its place in it
		result.Text = turn.Truncate(result.Text, max(max(len(result.Text), minResult)-len(note), minResult/2))
	}
	result.Text += note
	return result
}

// workspaceEvents collects what a call does with the tree of its session.
type workspaceEvents struct {
	mu  sync.Mutex
	all []turn.WorkspaceEvent
}

func (w *workspaceEvents) add(e turn.WorkspaceEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, e)
}

func (w *workspaceEvents) list() []turn.WorkspaceEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// minResult is the minimum of runtime.max_result_bytes, in bytes. A shorter text beside a whole output was not
// truncated: it is a note in place of binary content.
const minResult = 1024

// progressWriter returns a function that writes a call's progress to the turn's stream. It does not block: if the
// journal is slower than the server, only the latest report is written. done ends the writing and waits for the write
// under way. For a local activity, which is too short for progress, note is nil.
func (r *Runner) progressWriter(ctx context.Context,
	in workflows.CallInput) (note func(turn.ToolProgress), done func()) {
	if attempt.IsLocal(ctx) {
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
				p.Message = r.secrets.String(p.Message)
				if err := r.journal.NoteCall(ctx, in.Turn, in.Call.ID, in.Attempt, p, time.Now()); err != nil && ctx.Err() == nil {
					attempt.LogFailure(ctx, attempt.AsTurnError(err))
				}
			}
		}
	}()
	note = func(p turn.ToolProgress) {
		select {
		case earlier := <-latest: // one that was not written yet; of its report, only output is kept
			p = p.After(earlier)
		default:
		}
		select {
		case latest <- p:
		default: // a concurrent report was faster
		}
	}
	return note, func() { cancel(); <-ended }
}
