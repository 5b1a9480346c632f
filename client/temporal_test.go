package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// fakeTemporal is a Temporal server whose answers a test gives. A request without a function fails the test.
type fakeTemporal struct {
	client.Client
	client.HistoryEventIterator
	get      func() error                      // of WorkflowRun.Get
	start    func() error                      // of ExecuteWorkflow
	update   func(context.Context) error       // of UpdateWorkflow
	describe func() error                      // of DescribeWorkflowExecution, which reports a running turn
	stop     func() error                      // of TerminateWorkflow
	stopped  []string                          // the runs that TerminateWorkflow named
	healthy  error                             // of CheckHealth
	first    func() *historypb.HistoryEvent    // of GetWorkflowHistory
	schedule *client.ScheduleDescription       // of every schedule
	paused   func(client.SchedulePauseOptions) // of Pause
}

type fakeRun struct {
	client.WorkflowRun
	get func() error
}

func (r fakeRun) Get(context.Context, any) error { return r.get() }
func (r fakeRun) GetRunID() string               { return "run" }
func (r fakeRun) GetWithOptions(context.Context, any, client.WorkflowRunGetOptions) error {
	return r.get()
}

func (f *fakeTemporal) GetWorkflow(context.Context, string, string) client.WorkflowRun {
	return fakeRun{get: f.get}
}

func (f *fakeTemporal) ExecuteWorkflow(
	context.Context, client.StartWorkflowOptions, any, ...any,
) (client.WorkflowRun, error) {
	return fakeRun{}, f.start()
}

func (f *fakeTemporal) UpdateWorkflow(
	ctx context.Context, _ client.UpdateWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	return nil, f.update(ctx)
}

func (f *fakeTemporal) DescribeWorkflowExecution(
	context.Context, string, string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	var err error
	if f.describe != nil {
		err = f.describe()
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, Execution: &commonpb.WorkflowExecution{RunId: "run"},
	}}, err
}

func (f *fakeTemporal) TerminateWorkflow(_ context.Context, _, run, _ string, _ ...any) error {
	f.stopped = append(f.stopped, run)
	return f.stop()
}

func (f *fakeTemporal) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return nil, f.healthy
}

func (f *fakeTemporal) GetWorkflowHistory(
	context.Context, string, string, bool, enumspb.HistoryEventFilterType,
) client.HistoryEventIterator {
	return f
}

func (f *fakeTemporal) Next() (*historypb.HistoryEvent, error) { return f.first(), nil }

func (f *fakeTemporal) ScheduleClient() client.ScheduleClient { return fakeSchedules{f: f} }

type fakeSchedules struct {
	client.ScheduleClient
	client.ScheduleHandle
	f *fakeTemporal
}

func (s fakeSchedules) GetHandle(context.Context, string) client.ScheduleHandle { return s }

func (s fakeSchedules) Describe(context.Context) (*client.ScheduleDescription, error) {
	return s.f.schedule, nil
}

func (s fakeSchedules) Pause(_ context.Context, o client.SchedulePauseOptions) error {
	s.f.paused(o)
	return nil
}

// until returns a request that fails with err until a time.
func until(at time.Time, err error) func() error {
	return func() error {
		if time.Now().Before(at) {
			return err
		}
		return nil
	}
}

var errDenied = serviceerror.NewPermissionDenied("no", "")

func TestFollowContinuesIfTemporalRejectsTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{
			changed: make(chan struct{}),
			turns:   map[string]journal.TurnRecord{"t": {ID: "t", Session: "s", State: turn.StateRunning}},
		}
		b.say(turn.EventTurnStarted, "")
		c := New(&fakeTemporal{get: func() error { return errDenied }}, Options{Journal: b})
		var all sync.WaitGroup
		all.Go(func() {
			time.Sleep(5 * askAgainAfter)
			b.say(turn.EventTurnCompleted, "")
			close(b.changed)
		})
		var kinds []turn.EventKind
		for event, err := range c.Follow(t.Context(), Turn{Session: "s", ID: "t"}, -1) {
			require.NoError(t, err)
			kinds = append(kinds, event.Kind)
		}
		assert.Equal(t, []turn.EventKind{turn.EventTurnStarted, turn.EventTurnCompleted}, kinds)
		all.Wait()
	})
}

func TestWaitDoesNotTakeARejectionForTheEnd(t *testing.T) {
	for name, of := range map[string]Turn{
		"of a turn":    {Session: "s", ID: "t"},
		"of a message": {Session: "s", ID: "t", MessageID: "m", Merged: true},
	} {
		b := &book{turns: map[string]journal.TurnRecord{"t": {ID: "t", Session: "s", State: turn.StateRunning}}}
		c := New(&fakeTemporal{get: func() error { return errDenied }}, Options{Journal: b})
		_, err := c.Wait(t.Context(), of)
		var denied *serviceerror.PermissionDenied
		assert.ErrorAs(t, err, &denied, name)
		assert.NotErrorIs(t, err, ErrUndelivered, name)
	}
}

func TestInvalidMessagesAreRejectedBeforeATurnBegins(t *testing.T) {
	steps := -1
	message := func(id, text string) SendInput {
		return SendInput{Session: "s", Message: turn.UserMessage{ID: id, Text: text}}
	}
	limited, named, long := message("m", "x"), message("m", "x"), message("m", "x")
	limited.Limits = &workflows.LimitsRequest{MaxSteps: &steps}
	named.Agent = strings.Repeat("a", 1000)
	long.Session = strings.Repeat("s", 1200)
	for name, in := range map[string]SendInput{
		"blank": message("m", " \n"), "an answer's ID": message("answer:x", "x"), "a turn's ID": message("turn:x", "x"),
		"a long ID": message(strings.Repeat("m", 1000), "x"), "3 MiB": message("m", strings.Repeat("x", 3<<20)),
		"limits": limited, "agent": named, "session": long,
	} {
		_, err := New(&fakeTemporal{}, Options{}).Send(t.Context(), in)
		assert.ErrorIs(t, err, ErrInvalid, name)
		assert.Equal(t, turn.CodeInputInvalid, turn.CodeOf(err), "%s: deliveries do not retry it", name)
	}
	_, err := New(&fakeTemporal{}, Options{Tenant: "a/b"}).Send(t.Context(), message("m", "x"))
	assert.ErrorIs(t, err, ErrInvalid, "tenant")
	_, err = New(&fakeTemporal{}, Options{}).Schedules().Create(t.Context(), ScheduleInput{Name: "n", Text: " "})
	assert.ErrorIs(t, err, ErrInvalid, "schedule")
}

func TestOnlyAMissingSearchAttributeIsExplained(t *testing.T) {
	const hint = "a worker adds"
	for message, explained := range map[string]bool{
		"search attribute EverturnAgent is not defined": true, "TaskQueue is too long": false,
	} {
		f := &fakeTemporal{start: func() error { return serviceerror.NewInvalidArgument(message) }}
		_, err := New(f, Options{}).Send(t.Context(), SendInput{Message: turn.UserMessage{Text: "x"}})
		assert.Equal(t, explained, err != nil && strings.Contains(err.Error(), hint), message)
	}
}

func TestAnUnansweredDecisionNamesTheCause(t *testing.T) {
	for want, health := range map[error]error{ErrUnreachable: serviceerror.NewUnavailable("gone"), ErrNoWorker: nil} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeTemporal{healthy: health, update: func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}}
			_, err := New(f, Options{}).Approve(t.Context(), DecideInput{Session: "s", Request: "1.0"})
			assert.ErrorIs(t, err, want)
			for _, other := range []error{ErrUnreachable, ErrNoWorker} {
				assert.Equal(t, other == want, errors.Is(err, other))
			}
		})
	}
}

func TestRequestsPersistWhileTemporalIsAway(t *testing.T) {
	for name, request := range map[string]func(context.Context, *Client) error{
		"Send": func(ctx context.Context, c *Client) error {
			_, err := c.Send(ctx, SendInput{Session: "s", Message: turn.UserMessage{Text: "x"}})
			return err
		},
		"Running": func(ctx context.Context, c *Client) error {
			_, err := c.Running(ctx, "s")
			return err
		},
		"Terminate": func(ctx context.Context, c *Client) error { return c.Terminate(ctx, "s") },
	} {
		for outage, want := range map[time.Duration]error{20 * time.Second: nil, time.Hour: ErrUnreachable} {
			synctest.Test(t, func(t *testing.T) {
				away := until(time.Now().Add(outage), serviceerror.NewUnavailable("restarting"))
				c := New(&fakeTemporal{start: away, describe: away, stop: away}, Options{})
				assert.ErrorIs(t, request(t.Context(), c), want, name)
			})
		}
	}
}

// TestARepeatedStopNamesTheSameRun checks that Terminate, whose first reply is lost, cannot end a turn that has begun
// since, and reports success if the first attempt has ended the turn.
func TestARepeatedStopNamesTheSameRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTemporal{describe: func() error { return nil }}
		f.stop = func() error {
			if len(f.stopped) == 1 {
				return serviceerror.NewUnavailable("the reply is lost")
			}
			return serviceerror.NewNotFound("workflow execution already completed")
		}
		require.NoError(t, New(f, Options{}).Terminate(t.Context(), "s"))
		assert.Equal(t, []string{"run", "run"}, f.stopped)
	})
}

// TestARepeatedMessageFindsItsTurn sends a message again whose first Send started the running turn and got no answer.
func TestARepeatedMessageFindsItsTurn(t *testing.T) {
	busy := func() error { return serviceerror.NewWorkflowExecutionAlreadyStarted("", "", "running") }
	send := func(f *fakeTemporal, b *book, id string) (Turn, error) {
		o := Options{}
		if b != nil {
			o.Journal = b
		}
		f.start = busy
		return New(f, o).Send(t.Context(), SendInput{
			Session: "s", Message: turn.UserMessage{ID: id, Text: "x"}, Alone: true,
		})
	}
	started := &fakeTemporal{first: func() *historypb.HistoryEvent {
		input, err := converter.GetDefaultDataConverter().ToPayloads(
			workflows.Input{Session: "s", Message: &workflows.Message{ID: "m", Text: "x"}})
		require.NoError(t, err)
		return &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{Input: input},
		}}
	}}
	sent, err := send(started, nil, "m")
	require.NoError(t, err)
	assert.Equal(t, Turn{Session: "s", ID: "running", MessageID: "m"}, sent, "no worker has begun it")
	_, err = send(started, nil, "other")
	assert.ErrorIs(t, err, ErrBusy)
	b := &book{
		turns: map[string]journal.TurnRecord{"t": {ID: "t", MessageID: "m"}, "u": {ID: "u", MessageID: "first"}},
		took:  map[string]string{"m": "t", "n": "u"},
	}
	sent, err = send(&fakeTemporal{}, b, "m")
	require.NoError(t, err)
	assert.Equal(t, Turn{Session: "s", ID: "t", MessageID: "m"}, sent, "from the journal")
	sent, err = send(&fakeTemporal{}, b, "n")
	require.NoError(t, err)
	assert.Equal(t, Turn{Session: "s", ID: "u", MessageID: "n", Merged: true}, sent, "merged by an earlier Send")
}

// noBook is a journal that cannot be reached.
type noBook struct{ Journal }

func (noBook) Turn(context.Context, string) (journal.TurnRecord, error) {
	return journal.TurnRecord{}, journal.ErrUnavailable
}

func TestSchedulesNeedNoJournal(t *testing.T) {
	memo, err := converter.GetDefaultDataConverter().ToPayload(Schedule{Name: "n", When: "daily"})
	require.NoError(t, err)
	notes := 0
	f := &fakeTemporal{
		paused: func(client.SchedulePauseOptions) { notes++ },
		schedule: &client.ScheduleDescription{
			Memo:     &commonpb.Memo{Fields: map[string]*commonpb.Payload{memoKey: memo}},
			Schedule: client.Schedule{State: &client.ScheduleState{}},
			Info: client.ScheduleInfo{RecentActions: []client.ScheduleActionResult{
				{StartWorkflowResult: &client.ScheduleWorkflowExecution{WorkflowID: "n-1", FirstExecutionRunID: "r"}},
			}},
		},
	}
	schedule, err := New(f, Options{}).Schedules().Get(t.Context(), "n")
	require.NoError(t, err)
	require.Len(t, schedule.Last, 1)
	assert.Equal(t, ScheduleRun{Session: "n-1", WorkflowID: "n-1", RunID: "r"}, schedule.Last[0])
	for _, o := range []Options{{}, {Journal: noBook{}}} {
		_, err = New(f, o).Schedules().Pause(t.Context(), "n", "why")
		require.NoError(t, err)
	}
	assert.Equal(t, 2, notes)
}

func TestWithoutAJournalReadsFail(t *testing.T) {
	c, ctx := New(nil, Options{}), t.Context()
	_, pending := c.Pending(ctx, PendingInput{})
	_, ofTurn := c.Pending(ctx, PendingInput{Turn: "t"})
	_, sessions := c.Sessions(ctx, 1)
	_, result := c.Result(ctx, Turn{ID: "t"})
	_, waited := c.Wait(ctx, Turn{ID: "t"})
	_, forked := c.Fork(ctx, ForkInput{Session: "s", At: 1})
	for i, err := range []error{pending, ofTurn, sessions, result, waited, forked} {
		assert.Error(t, err, fmt.Sprint(i))
	}
}
