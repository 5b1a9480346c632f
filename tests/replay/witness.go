package replay

import (
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows"
)

// witness sees what the workflow code does in a replay, where the SDK does not look: what each activity is for, and how
// the run ends. Of a run that does not complete the SDK compares no ending at all.
type witness struct {
	interceptor.WorkerInterceptorBase
	asked  []subject
	ending string // empty while the run goes on
}

// subject is what an activity is for: the part of its input that says which inference or call it is. Two calls that
// change places would be answered with each other's results.
type subject struct {
	Step int `json:"step"`
	Call struct {
		ID string `json:"id"`
	} `json:"call"`
	Attempt int `json:"attempt"`
}

func (w *witness) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &inbound{witness: w}
	in.Next = next
	return in
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	witness *witness
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &outbound{witness: i.witness}
	out.Next = next
	return i.Next.Init(out)
}

// ExecuteWorkflow is not returned from where the replay ends in the middle of the run.
func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	out, err := i.Next.ExecuteWorkflow(ctx, in)
	i.witness.ending = endingOf(out, err)
	return out, err
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	witness *witness
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	o.witness.asked = append(o.witness.asked, subjectOf(args))
	return o.Next.ExecuteActivity(ctx, kind, args...)
}

func subjectOf(args []any) subject {
	var s subject
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(args...)
	if err == nil {
		_ = converter.GetDefaultDataConverter().FromPayloads(payloads, &s) // an activity of another shape is for nothing
	}
	return s
}

// compare holds what was seen against the history.
func (w *witness) compare(events []*historypb.HistoryEvent) error {
	i := 0
	for _, e := range events {
		if e.EventType != enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
			continue
		}
		a := e.GetActivityTaskScheduledEventAttributes()
		var want subject
		_ = converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &want) // as above
		if i >= len(w.asked) {
			return fmt.Errorf("event %d schedules activity %s and the code asks for none", e.EventId, a.ActivityType.GetName())
		}
		if w.asked[i] != want {
			return fmt.Errorf("event %d schedules activity %s for %+v and the code wants it for %+v",
				e.EventId, a.ActivityType.GetName(), want, w.asked[i])
		}
		i++
	}
	if want := Ending(events); want != "" && closedByCode(events) && w.ending != want {
		return fmt.Errorf("the run ended %q and the code ends it %q", want, w.ending)
	}
	return nil
}

// endingOf names how the code ends a run, in the words of Ending.
func endingOf(out any, err error) string {
	var next *workflow.ContinueAsNewError
	var failed *temporal.ApplicationError
	switch {
	case errors.As(err, &next):
		return "continued"
	case temporal.IsCanceledError(err):
		return "cancelled"
	case errors.As(err, &failed):
		return "failed: " + failed.Type()
	case err != nil:
		return "failed: " + err.Error()
	}
	if res, ok := out.(workflows.Result); ok {
		return "completed: " + string(res.FinishReason)
	}
	return fmt.Sprintf("completed with a %T", out)
}
