package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// failureOf returns the error with which the last attempt of an activity failed, or nil if it ended in another way. The
// cause of a timeout is the error of an earlier attempt, and says nothing about the attempt that timed out.
func failureOf(err error) *temporal.ApplicationError {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	if !errors.As(err, &app) || errors.As(err, &timeout) && !errors.As(app, &timeout) {
		return nil
	}
	return app
}

// code returns the turn.Code of an activity's error, or an empty one.
func code(err error) turn.Code {
	if app := failureOf(err); app != nil {
		return turn.Code(app.Type())
	}
	return ""
}

// knownCode returns c if it is a code of package turn, and an empty code otherwise.
func knownCode(c turn.Code) turn.Code {
	if !c.Known() {
		return ""
	}
	return c
}

// message returns the user-facing text of an error.
func message(err error) string {
	if app := failureOf(err); app != nil {
		return app.Message()
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return "no worker answered in time"
	}
	return err.Error()
}

// partialText returns what the model had said when the turn's time was over. It is empty if the error does not contain
// it.
func partialText(err error) string {
	var busy time.Duration
	var said string
	app := failureOf(err)
	if app == nil || app.Details(&busy, &said) != nil { // no details, or details of another type
		return ""
	}
	return said
}

// endedBy returns the limit with which an inference was refused, or an empty reason.
func endedBy(err error) (reason turn.FinishReason) {
	var busy time.Duration
	var said string
	if app := failureOf(err); app != nil && app.Details(&busy, &said, &reason) == nil {
		return reason
	}
	return ""
}

// resultOf returns the result of a turn that err stops.
func (r *run) resultOf(err error) turn.Result {
	if temporal.IsCanceledError(err) {
		return turn.Result{State: turn.StateCancelled, Reason: turn.FinishCancelled, Answer: r.progress.LastText,
			Message: "the turn was cancelled; what was done is kept"}
	}
	c := code(err)
	if c == "" {
		c = turn.CodeInternal
	}
	return turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: c, Answer: r.progress.LastText,
		Message: message(err)}
}

func failedResult(err *turn.Error) turn.Result {
	return turn.Result{State: turn.StateFailed, Reason: turn.FinishFailed, Code: err.Code, Message: err.Message}
}

// The texts that the model gets for calls that have no result of their own.

// modelText returns the model's text for a call that ended with an error.
func modelText(f *callState, tool turn.Tool, outcome turn.Outcome, err error) string {
	switch {
	case outcome != turn.OutcomeUnknown:
		return message(err)
	case tool.Repeatable && f.reached > 1:
		return fmt.Sprintf("Outcome unknown: %s. The call was made up to %d times, and each may or may not have taken effect. "+
			"Check before you try again.", strings.TrimSuffix(message(err), "."), f.reached)
	}
	return "Outcome unknown: " + strings.TrimSuffix(message(err), ".") +
		". The call may or may not have taken effect, and it was not repeated. Check before you try again."
}

// reachedText returns the model's text for a call whose last dispatch did nothing, although an earlier one may have.
func reachedText(f *callState, err error) string {
	why := strings.TrimSuffix(message(err), ".")
	if f.reached == 0 {
		return "Outcome unknown: the tool's server had requested input and did not get it: " + why +
			". The call may have taken effect in part. Check before you try again."
	}
	return "Outcome unknown: the call was made, and its end is not known; it may or may not have taken effect. It was " +
		"tried again, " +
		"without success: " + why + ". Check before you try again."
}

// denialText returns the model's text for a call that was denied or whose approval expired.
func denialText(decision turn.Decision) string {
	if decision.Status == turn.StatusExpired {
		return "not run: it needed an approval, which did not come in time; do not try again unless the user asks for it"
	}
	text := "not run: the user denied it"
	if decision.Reason != "" {
		text += ": " + decision.Reason
	}
	return text + "; do not try again unless the user asks for it"
}

// recoveredText returns the model's text for servers that are available again.
func recoveredText(servers []string) string {
	quoted := make([]string, len(servers))
	for i, s := range servers {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return "Available again, with their tools: tool server " + strings.Join(quoted, ", ") + "."
}

// Unknown fails a workflow whose type the worker does not know. Without it, the SDK would retry the first workflow task
// without end, and the workflow would hold the ID of its session: no turn could begin, and a cancellation would have no
// effect.
func Unknown(ctx workflow.Context, _ converter.EncodedValues) error {
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("workflow type %q is unknown here: the types are %s, %s and %s", workflow.GetInfo(ctx).WorkflowType.Name,
			TurnWorkflow, DeliverWorkflow, CompactWorkflow),
		string(turn.CodeConfigInvalid), nil)
}
