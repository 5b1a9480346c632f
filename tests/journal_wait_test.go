package tests

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// fullJournal is a journal whose disk is full for some time after the first use of one of its methods.
type fullJournal struct {
	engine.Journal
	method string
	full   time.Duration
	until  atomic.Pointer[time.Time]
	asked  atomic.Int64
}

func (j *fullJournal) wrap(s engine.Journal) engine.Journal { j.Journal = s; return j }

func (j *fullJournal) check(method string) error {
	if method == j.method {
		j.asked.Add(1)
		end := time.Now().Add(j.full)
		j.until.CompareAndSwap(nil, &end)
	}
	if end := j.until.Load(); end != nil && time.Now().Before(*end) {
		return errors.New("database or disk is full")
	}
	return nil
}

func (j *fullJournal) StartInference(ctx context.Context, in journal.StartInference) (journal.Inference, error) {
	if err := j.check("StartInference"); err != nil {
		return journal.Inference{}, err
	}
	return j.Journal.StartInference(ctx, in)
}

func (j *fullJournal) SettleInference(ctx context.Context, in journal.SettleInference) (journal.Inference, error) {
	if err := j.check("SettleInference"); err != nil {
		return journal.Inference{}, err
	}
	return j.Journal.SettleInference(ctx, in)
}

func (j *fullJournal) ClaimCall(ctx context.Context, in journal.CallRecord, approved bool, sensitive ...string) (journal.CallRecord, error) {
	if err := j.check("ClaimCall"); err != nil {
		return journal.CallRecord{}, err
	}
	return j.Journal.ClaimCall(ctx, in, approved, sensitive...)
}

func (j *fullJournal) SettleCall(ctx context.Context, turnID, callID string, attempt int, r turn.ToolResult,
	at time.Time) (journal.CallRecord, error) {
	if err := j.check("SettleCall"); err != nil {
		return journal.CallRecord{}, err
	}
	return j.Journal.SettleCall(ctx, turnID, callID, attempt, r, at)
}

func (j *fullJournal) Finish(ctx context.Context, in turn.FinishInput) (journal.TurnRecord, error) {
	if err := j.check("Finish"); err != nil {
		return journal.TurnRecord{}, err
	}
	return j.Journal.Finish(ctx, in)
}

// TestATurnWaitsForItsJournal: wherever the journal is away, for much longer than the turn may work, nothing is paid
// for or run twice, and the turn is answered.
func TestATurnWaitsForItsJournal(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"StartInference", "SettleInference", "ClaimCall", "SettleCall",
		"Finish"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			once := func(_ context.Context, in echoIn) (string, error) {
				runs.Add(1)
				return "echo " + in.Text, nil
			}
			e := newEnv(t, fakellm.Steps(fakellm.Call("local_once", `{"text":"hello"}`), fakellm.Text("It echoed.")),
				func(c *config.Config) { c.Runtime.TurnTimeout = 5 * time.Second })
			j := &fullJournal{method: method, full: 12 * time.Second}
			e.work(engine.WithTool("once", "Echoes.", once, engine.Risk(turn.RiskLow)), engine.WithJournal(j.wrap))
			res := e.result(e.begin(session(t), "Echo hello.", nil))
			assert.Equal(t, "It echoed.", res.Answer)
			assert.EqualValues(t, 1, runs.Load())
			assert.Equal(t, 2, res.Steps)
			require.Len(t, e.model.Requests(), 2)
			assert.Equal(t, []string{"echo hello"}, results(e.model.Requests()[1].Chat))
			events := e.events(session(t), res.Turn)
			assert.LessOrEqual(t, count(events, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED), 4, "the server retries")
			assert.Less(t, j.asked.Load(), int64(60))
		})
	}
}
