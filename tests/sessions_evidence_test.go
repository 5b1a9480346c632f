package tests

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows/turn"
)

// check checks the ledgers of an idle session.
func (k *sessionClient) check(after any) {
	if problems := k.m.Check(k.ledgers()); len(problems) > 0 {
		assert.Fail(k.t, "the session is not in order", "%s after %v:\n%s\n%s", k.m.Session, after,
			strings.Join(problems, "\n"), k.state())
	}
}

// state describes the state of each message, for a test that failed.
func (k *sessionClient) state() string {
	var b strings.Builder
	for _, s := range k.m.Sent() {
		rec, err := k.store.Delivered(k.context(), k.m.Session, s.ID)
		fmt.Fprintf(&b, "%s: %s in %.8s %v\n", s.ID, rec.State, rec.ID, err)
	}
	for start := range k.starts {
		for run := start; run != ""; {
			events := k.eventsOf(k.context(), k.m.Session, run)
			fmt.Fprintf(&b, "run %.8s:", run)
			for _, e := range events {
				fmt.Fprintf(&b, " %s", strings.ToLower(strings.TrimPrefix(e.EventType.String(), "EVENT_TYPE_")))
			}
			fmt.Fprintln(&b)
			run, _ = continues(events)
		}
	}
	return b.String()
}

func (k *sessionClient) closed() bool {
	d, err := k.env.client.DescribeWorkflowExecution(k.context(), k.m.Session, "")
	require.NoError(k.t, err)
	return d.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// ledgers collects what the journal, Temporal and the provider know of the session, and lets each user ask what became
// of its message.
func (k *sessionClient) ledgers() (l check.Ledgers) {
	if len(k.m.Sent()) == 0 {
		return l
	}
	ctx := k.context()
	for _, id := range k.m.Accepted() {
		res, err := k.client.Wait(ctx, client.Turn{Session: k.m.Session, MessageID: id, Merged: true})
		require.NoError(k.t, err, "asking for the result of %s", id)
		k.m.Told(id, res)
	}
	l.Requests = k.requestsOf(k.m.Session)
	l.Run.Window = cmp.Or(k.cfg.Runtime.MaxHistoryMessages, turn.DefaultLimits().MaxHistoryMessages)
	l.Sessions, l.Waits = k.kept(ctx, k.m.Session)
	k.figures.waits.Add(int64(len(l.Waits)))
	for _, line := range l.Sessions[0].Lines {
		if line.Turn != nil {
			k.starts[line.Turn.ID] = true // a turn's ID is that of the run in which it began
			k.turns.Add(1)
		}
	}
	l.Histories = map[string]*historypb.History{}
	for start := range k.starts {
		k.history(start, l.Histories)
	}
	return l
}

// history adds a run and those that continue it.
func (k *sessionClient) history(run string, into map[string]*historypb.History) {
	for run != "" && into[run] == nil {
		events := k.eventsOf(k.context(), k.m.Session, run)
		into[run] = &historypb.History{Events: events}
		k.runs.Add(1)
		next, middle := continues(events)
		switch run = next; {
		case next == "":
		case middle:
			k.continued.Add(1)
		default:
			k.followed.Add(1)
		}
	}
}

// continues returns the run that continues another one, and whether it does so in the middle of a turn.
func continues(events []*historypb.HistoryEvent) (next string, middle bool) {
	a := events[len(events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes()
	if a == nil {
		return "", false
	}
	return a.NewExecutionRunId, strings.Contains(string(a.Input.Payloads[0].Data), `"continued"`)
}
