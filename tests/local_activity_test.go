package tests

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// lateJournal reports late settlements on a channel.
type lateJournal struct {
	engine.Journal
	late chan journal.CallRecord
}

func (s *lateJournal) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (journal.CallRecord, error) {
	record, err := s.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
	if record.Late {
		s.late <- record
	}
	return record, err
}

func TestASlowLocalActivityIsAttemptedAgain(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	open := sync.OnceFunc(func() { close(release) })
	t.Cleanup(open)
	slow := func(ctx context.Context, in echoIn) (string, error) {
		info, _ := tools.CallInfo(ctx)
		if in.Text == "3" && info.Attempt == 1 {
			<-release
			return "too late", nil
		}
		return fmt.Sprintf("echo %s by attempt %d", in.Text, info.Attempt), nil
	}
	var calls []fakellm.ToolCall
	for i := range 6 {
		calls = append(calls, fakellm.ToolCall{Name: "local_slow", Arguments: fmt.Sprintf(`{"text":"%d"}`, i)})
	}
	e := newEnv(t, fakellm.Steps(fakellm.Calls(calls...), fakellm.Text("done")))
	j := &lateJournal{late: make(chan journal.CallRecord, 1)}
	e.work(engine.WithTool("slow", "Echoes.", slow, engine.LocalActivity(), engine.Risk(turn.RiskLow)),
		engine.WithJournal(func(s engine.Journal) engine.Journal { j.Journal = s; return j }))
	run := e.begin(session(t), "Echo six times.", nil)
	res := e.result(run)
	assert.Equal(t, "done", res.Answer)
	assert.Equal(t, 6, res.ToolCalls)
	events := e.events(session(t), run.GetRunID())
	withinBudget(t, events, 26+6+3) // on a busy machine the slow call takes another workflow task
	e.keep("v1-quick-past-cap", session(t), run.GetRunID())
	assert.Equal(t, 3, count(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED),
		"two inferences and the one call that was slow")
	open()
	select {
	case late := <-j.late:
		assert.Equal(t, "1.3", late.Call.ID)
	case <-time.After(within):
		t.Fatal("the first attempt never came back")
	}
	record, err := e.journal.Call(t.Context(), res.Turn, "1.3")
	require.NoError(t, err)
	assert.Equal(t, "echo 3 by attempt 2", record.Text, "what was settled first stays")
	assert.Equal(t, 2, record.Runs)
	assert.Equal(t, 1, record.LateCount)
	_, kinds, _ := e.story(res.Turn)
	assert.Equal(t, 6, kinds[turn.EventToolCallStarted])
	assert.Equal(t, 6, kinds[turn.EventToolCallCompleted])
	messages := paired(t, e, session(t))
	assert.Equal(t, "echo 3 by attempt 2", messages[5].Text)
}
