package tests

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/journal"
	kept "github.com/everturn/everturn/tests/replay"
	model "github.com/everturn/everturn/tests/sessionmodel"
	"github.com/everturn/everturn/workflows/turn"
)

// check checks the evidence of an idle session and replays its runs.
func (k *sessionClient) check(after any) {
	e := k.evidence()
	if problems := k.m.Check(e); len(problems) > 0 {
		assert.Fail(k.t, "the session is not in order", "%s after %v:\n%s\n%s", k.m.Session, after,
			strings.Join(problems, "\n"), k.state())
	}
	for _, record := range e.Turns {
		k.starts[record.ID] = true // a turn's ID is that of the run in which it began
	}
	seen := map[string]bool{}
	for start := range k.starts {
		k.replay(start, seen)
	}
	k.env.model.Drain()
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

// evidence collects what is known of the session.
func (k *sessionClient) evidence() model.Evidence {
	ctx := k.context()
	e := model.Evidence{Waits: map[string][]journal.RequestRecord{}, Calls: map[string][]journal.CallRecord{},
		Chunks: map[string][]turn.Chunk{}, Asked: map[string]bool{}}
	if len(k.m.Sent()) == 0 {
		return e
	}
	rec, err := k.store.Session(ctx, k.m.Session)
	require.NoError(k.t, err)
	e.Messages, err = k.store.Messages(ctx, k.m.Session, 1, rec.Head.Seq)
	require.NoError(k.t, err)
	require.Len(k.t, e.Messages, int(rec.Head.Seq))
	e.Turns, err = k.store.Turns(ctx, k.m.Session)
	require.NoError(k.t, err)
	for _, record := range e.Turns {
		e.Waits[record.ID], err = k.store.Requests(ctx, record.ID)
		require.NoError(k.t, err)
		e.Calls[record.ID], err = k.store.Calls(ctx, record.ID)
		require.NoError(k.t, err)
		e.Chunks[record.ID], err = k.store.Chunks(ctx, record.ID, -1, 10_000)
		require.NoError(k.t, err)
		k.turns.Add(1)
		k.figures.waits.Add(int64(len(e.Waits[record.ID])))
	}
	k.sessionsEnv.mu.Lock()
	defer k.sessionsEnv.mu.Unlock()
	for _, s := range k.m.Sent() {
		e.Asked[s.ID] = k.asked[k.m.Session+" "+s.ID]
	}
	return e
}

// replay replays a run and its continuations on the current code, each once.
func (k *sessionClient) replay(run string, seen map[string]bool) {
	for run != "" && !seen[run] {
		seen[run] = true
		events := k.eventsOf(k.context(), k.m.Session, run)
		require.NoError(k.t, kept.Run(events), "replaying run %s of %s", run, k.m.Session)
		k.runs.Add(1)
		next, middle := continues(events)
		if run = next; next == "" {
			continue
		}
		if middle {
			k.continued.Add(1)
		} else {
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
