package replay

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows"
)

// witness records what the SDK does not compare in a replay: what each activity is for, and how the run ends. For a run
// that does not complete, the SDK compares no ending.
type witness struct {
	interceptor.WorkerInterceptorBase
	asked  []subject // regular activities
	local  []subject // local ones
	ending string    // empty while the run is open
}

// subject is what an activity is for: the part of its input that names the inference or call. Two calls that change
// places would get each other's results.
type subject struct {
	Step int `json:"step"`
	Call struct {
		ID string `json:"id"`
	} `json:"call"`
	Attempt int `json:"attempt"`
}

func (w *witness) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
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

// ExecuteWorkflow does not return if the replay ends in the middle of the run.
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

func (o *outbound) ExecuteLocalActivity(ctx workflow.Context, kind string, args ...any) workflow.Future {
	o.witness.local = append(o.witness.local, subjectOf(args))
	return o.Next.ExecuteLocalActivity(ctx, kind, args...)
}

func subjectOf(args []any) subject {
	var s subject
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(args...)
	if err == nil {
		// an activity with another input has an empty subject
		_ = converter.GetDefaultDataConverter().FromPayloads(payloads, &s)
	}
	return s
}

// compare compares what was seen with the history.
func (w *witness) compare(events []*historypb.HistoryEvent) error {
	if err := w.compareRegular(events); err != nil {
		return err
	}
	if err := w.compareLocal(events); err != nil {
		return err
	}
	if want := Ending(events); want != "" && closedByCode(events) && w.ending != want {
		return fmt.Errorf("the run ended %q and the code ends it %q", want, w.ending)
	}
	return nil
}

func (w *witness) compareRegular(events []*historypb.HistoryEvent) error {
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
	return nil
}

// answer is what the marker of a local activity holds. Its input is not recorded, but a call's result names the call.
type answer struct {
	event  int64
	CallID string `json:"call_id"`
	again  bool   // it failed and is retried after a pause, as a local activity of its own
}

// compareLocal compares the calls that the code makes as local activities with the calls whose results it is given. The
// SDK numbers local activities in the order in which they are scheduled, and uses that number to find their markers,
// which lie in the order in which the activities ended. For a failed call only its kind is known.
func (w *witness) compareLocal(events []*historypb.HistoryEvent) error {
	answers, err := answersOf(events)
	if err != nil {
		return err
	}
	n := 0
	for _, asked := range w.local {
		for n++; answers[n].again; n++ { // a retried call is scheduled once and answered more than once
		}
		if got := answers[n]; got.CallID != "" && got.CallID != asked.Call.ID {
			return fmt.Errorf("event %d has the result of call %s and the code takes it for that of call %q", got.event,
				got.CallID, asked.Call.ID)
		}
		delete(answers, n)
	}
	for _, left := range answers {
		if !left.again {
			return fmt.Errorf("event %d has the result of a local activity and the code asks for none", left.event)
		}
	}
	return nil
}

// answersOf returns the markers of local activities by their numbers.
func answersOf(events []*historypb.HistoryEvent) (map[int]answer, error) {
	answers := map[int]answer{}
	for _, e := range events {
		details := e.GetMarkerRecordedEventAttributes().GetDetails()
		var data struct {
			ActivityID string
			Backoff    time.Duration
		}
		if decode(details["data"], &data) != nil || data.ActivityID == "" {
			continue // another kind of event or marker
		}
		n, err := strconv.Atoi(data.ActivityID)
		if err != nil {
			return nil, fmt.Errorf("event %d is of the local activity %q: this SDK does not number them", e.EventId,
				data.ActivityID)
		}
		a := answer{event: e.EventId, again: data.Backoff > 0}
		_ = decode(details["result"], &a) // a failed activity has no result, and one of another kind names no call
		answers[n] = a
	}
	return answers, nil
}

// endingOf returns how the code ends a run, in the words of Ending.
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
	switch res := out.(type) {
	case workflows.Result:
		return "completed: " + string(res.FinishReason)
	case workflows.DeliverResult:
		return "completed: " + string(res.FinishReason)
	case workflows.CompactResult: // it has no finish reason, and so an empty one in its JSON
		return "completed: "
	}
	return fmt.Sprintf("completed with a %T", out)
}
