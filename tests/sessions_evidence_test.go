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
func (c *sessionClient) check(after any) {
	if problems := c.m.Check(c.ledgers()); len(problems) > 0 {
		assert.Fail(c.t, "the session is not in order", "%s after %v:\n%s\n%s", c.m.Session, after,
			strings.Join(problems, "\n"), c.state())
	}
}

// state describes the state of each message, for a test that failed.
func (c *sessionClient) state() string {
	var b strings.Builder
	for _, s := range c.m.Sent() {
		rec, err := c.journal.Delivered(c.context(), c.m.Session, s.ID)
		fmt.Fprintf(&b, "%s: %s in %.8s %v\n", s.ID, rec.State, rec.ID, err)
	}
	for start := range c.starts {
		for run := start; run != ""; {
			events := c.eventsOf(c.context(), c.m.Session, run)
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

func (c *sessionClient) closed() bool {
	d, err := c.env.client.DescribeWorkflowExecution(c.context(), c.m.Session, "")
	require.NoError(c.t, err)
	return d.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// ledgers collects what the journal, Temporal and the provider know of the session, and lets each user ask what became
// of its message.
func (c *sessionClient) ledgers() (l check.Ledgers) {
	if len(c.m.Sent()) == 0 {
		return l
	}
	ctx := c.context()
	for _, id := range c.m.Accepted() {
		res, err := c.client.Wait(ctx, client.Turn{Session: c.m.Session, MessageID: id, Merged: true})
		require.NoError(c.t, err, "asking for the result of %s", id)
		c.m.Told(id, res.Result)
	}
	l.Requests = c.requestsOf(c.m.Session)
	l.Run.Window = cmp.Or(c.cfg.Runtime.MaxHistoryMessages, turn.DefaultLimits().MaxHistoryMessages)
	l.Sessions, l.Waits = c.kept(ctx, c.m.Session)
	c.figures.waits.Add(int64(len(l.Waits)))
	for _, line := range l.Sessions[0].Lines {
		if line.Turn != nil {
			c.starts[line.Turn.ID] = true // a turn's ID is that of the run in which it began
			c.turns.Add(1)
		}
	}
	l.Histories = map[string]*historypb.History{}
	for start := range c.starts {
		c.history(start, l.Histories)
	}
	return l
}

// history adds a run and those that continue it.
func (c *sessionClient) history(run string, into map[string]*historypb.History) {
	for run != "" && into[run] == nil {
		events := c.eventsOf(c.context(), c.m.Session, run)
		into[run] = &historypb.History{Events: events}
		c.runs.Add(1)
		next, middle := continues(events)
		switch run = next; {
		case next == "":
		case middle:
			c.continued.Add(1)
		default:
			c.followed.Add(1)
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
