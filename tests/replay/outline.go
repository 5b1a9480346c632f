package replay

import (
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/workflows"
)

// Outline describes a history in one line: its activities, timers and messages in the order in which they were
// scheduled, how each ended if it did not simply succeed, and the run's ending.
//
//	Begin°                 a local activity (quick calls are CallTool°)
//	Infer                  a regular activity
//	Infer(attempt 2)       it succeeded with its second attempt
//	CallTool(Heartbeat)    it failed: a timeout's kind, a turn.Code, cancelled, or open at the end
//	6×CallTool             six of the same in a row
//	timer(fired)           a timer; or cancelled, or open
//	update                 a message came by update
//	cancel                 the run was asked to cancel
//	task-lost              a workflow task's worker died; task-failed(…) if it failed or the run was reset
//	completed: answered    the ending: completed with its finish reason, failed with its code, cancelled, continued,
//	                       terminated, timed out; or nothing if the run is open
func Outline(events []*historypb.HistoryEvent) string {
	o := outliner{at: map[int64]int{}}
	for _, e := range events {
		o.add(e)
	}
	story := compress(o.tokens)
	if ending := Ending(events); ending != "" {
		story = append(story, "→ "+ending)
	}
	return strings.Join(story, " ")
}

type outliner struct {
	tokens []string
	at     map[int64]int // the token of what an event scheduled or started
}

// said adds a token that a later event may extend.
func (o *outliner) said(e *historypb.HistoryEvent, token string) {
	o.at[e.EventId] = len(o.tokens)
	o.tokens = append(o.tokens, token)
}

// became extends the token of an earlier event with how that ended.
func (o *outliner) became(id int64, what string) {
	if i, ok := o.at[id]; ok {
		name, _, _ := strings.Cut(o.tokens[i], "(")
		o.tokens[i] = name + what
	}
}

func (o *outliner) add(e *historypb.HistoryEvent) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		o.said(e, marker(e.GetMarkerRecordedEventAttributes()))
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		o.said(e, "timer(open)")
	case enumspb.EVENT_TYPE_TIMER_FIRED:
		o.became(e.GetTimerFiredEventAttributes().StartedEventId, "(fired)")
	case enumspb.EVENT_TYPE_TIMER_CANCELED:
		o.became(e.GetTimerCanceledEventAttributes().StartedEventId, "(cancelled)")
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		o.said(e, "update")
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		o.said(e, "cancel")
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
		if e.GetWorkflowTaskTimedOutEventAttributes().TimeoutType == enumspb.TIMEOUT_TYPE_START_TO_CLOSE {
			o.said(e, "task-lost")
		}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		o.said(e, "task-failed("+e.GetWorkflowTaskFailedEventAttributes().Cause.String()+")")
	default:
		o.activity(e)
	}
}

func (o *outliner) activity(e *historypb.HistoryEvent) {
	switch e.EventType {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		o.said(e, e.GetActivityTaskScheduledEventAttributes().ActivityType.GetName()+"(open)")
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := e.GetActivityTaskStartedEventAttributes()
		if a.Attempt > 1 {
			o.became(a.ScheduledEventId, fmt.Sprintf("(attempt %d)", a.Attempt))
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		id := e.GetActivityTaskCompletedEventAttributes().ScheduledEventId
		if i, ok := o.at[id]; ok {
			o.tokens[i] = strings.TrimSuffix(o.tokens[i], "(open)")
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		o.became(a.ScheduledEventId, "("+reason(a.Failure)+")")
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := e.GetActivityTaskTimedOutEventAttributes()
		o.became(a.ScheduledEventId, "("+reason(a.Failure)+")")
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		o.became(e.GetActivityTaskCanceledEventAttributes().ScheduledEventId, "(cancelled)")
	}
}

// marker returns the name of a local activity. The marker's data is the SDK's own format and is only read.
func marker(a *historypb.MarkerRecordedEventAttributes) string {
	var data struct{ ActivityType string }
	name := a.MarkerName
	if decode(a.GetDetails()["data"], &data) == nil && data.ActivityType != "" {
		name = data.ActivityType + "°"
	}
	if a.Failure != nil {
		name += "(" + reason(a.Failure) + ")"
	}
	return name
}

// reason returns the name of a failure.
func reason(f *failurepb.Failure) string {
	switch {
	case f.GetApplicationFailureInfo() != nil:
		return f.GetApplicationFailureInfo().Type
	case f.GetCanceledFailureInfo() != nil:
		return "cancelled"
	case f.GetTimeoutFailureInfo() != nil:
		return f.GetTimeoutFailureInfo().TimeoutType.String()
	}
	return f.GetMessage()
}

// Ending returns how a run closed, the last part of its outline. It is empty if the run is open.
func Ending(events []*historypb.HistoryEvent) string {
	if len(events) == 0 {
		return ""
	}
	last := events[len(events)-1]
	switch last.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var res workflows.Result
		if err := decode(last.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &res); err != nil {
			return "completed with something else: " + err.Error()
		}
		return "completed: " + string(res.FinishReason)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		return "failed: " + reason(last.GetWorkflowExecutionFailedEventAttributes().GetFailure())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		return "cancelled"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return "continued"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		return "terminated"
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return "timed out"
	}
	return ""
}

// closedByCode reports whether the workflow itself ended the run.
func closedByCode(events []*historypb.HistoryEvent) bool {
	switch events[len(events)-1].EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		return false
	}
	return true
}

func decode(p *commonpb.Payloads, to any) error {
	if len(p.GetPayloads()) == 0 {
		return errors.New("there is nothing")
	}
	return converter.GetDefaultDataConverter().FromPayloads(p, to)
}

// compress joins equal neighbours.
func compress(tokens []string) []string {
	var out []string
	for i := 0; i < len(tokens); {
		n := 1
		for i+n < len(tokens) && tokens[i+n] == tokens[i] {
			n++
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("%d×%s", n, tokens[i]))
		} else {
			out = append(out, tokens[i])
		}
		i += n
	}
	return out
}
