package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows"
)

// ledger is a file of JSON lines that several goroutines write.
type ledger struct {
	mu sync.Mutex
	f  *os.File
}

func openLedger(file string) (*ledger, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &ledger{f: f}, err
}

func (l *ledger) write(line any) {
	b, _ := json.Marshal(line) // our own types always marshal
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.f.Write(append(b, '\n')) // a ledger with a gap fails its check
}

// user sends messages as a client does that must not lose one: it repeats a message under the same ID until it is
// acknowledged, and then until it knows the outcome.
type user struct {
	client       sdk.Client
	people       *client.Client
	journal      *journal.DB
	ledger       *ledger
	taskQueue    string
	acknowledged func(t turnPlan, turnID string)
	failures     atomic.Int64 // requests that the server did not answer
	acks         atomic.Int64
}

// patience bounds one request to the server. The next one repeats it.
const patience = 10 * time.Second

// send sends a message and waits for its result. byUpdate sends it as update-with-start does.
func (u *user) send(ctx context.Context, t turnPlan, byUpdate bool) error {
	u.ledger.write(check.Entry{Event: check.Sending, At: time.Now(), Session: t.session, Message: t.id, Text: t.text})
	for {
		err := u.try(ctx, t, byUpdate)
		if err == nil {
			return nil
		}
		u.failures.Add(1)
		if pause(ctx, 100*time.Millisecond) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// try sends the message once. If it returns an error, the message must be sent again.
func (u *user) try(ctx context.Context, t turnPlan, byUpdate bool) error {
	start := u.start
	if byUpdate {
		start = u.update
	}
	run, err := start(ctx, t)
	if err != nil {
		return err
	}
	u.ledger.write(check.Entry{Event: check.Acknowledged, At: time.Now(), Session: t.session, Message: t.id, Turn: run})
	u.acks.Add(1)
	u.acknowledged(t, run)
	entry := check.Entry{Event: check.Answered, Session: t.session, Message: t.id}
	res, err := u.result(ctx, t, run)
	if errors.Is(err, errUndecided) {
		return err
	}
	if res.FinishReason == "no_message" {
		return errUndecided // it was acknowledged and not delivered: the journal tells the outcome in the end
	}
	entry.At, entry.Turn, entry.State, entry.Reason, entry.Answer = time.Now(), res.Turn, string(res.State),
		string(res.FinishReason), res.Answer
	if err != nil {
		entry.Error = err.Error()
	}
	u.ledger.write(entry)
	return nil
}

// start sends the message with the product's own client.
func (u *user) start(ctx context.Context, t turnPlan) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent, err := u.people.Send(ctx, client.SendInput{Session: t.session,
		Message: workflows.Message{ID: t.id, Text: t.text, Plan: t.plan}})
	return sent.ID, err
}

// update sends the message as an update that starts a run if there is none, which any Temporal client can do.
func (u *user) update(ctx context.Context, t turnPlan) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	handle, err := u.client.UpdateWithStartWorkflow(ctx, sdk.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: u.client.NewWithStartWorkflowOperation(sdk.StartWorkflowOptions{
			ID: t.session, TaskQueue: u.taskQueue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, workflows.TurnWorkflow, workflows.Input{}),
		UpdateOptions: sdk.UpdateWorkflowOptions{UpdateID: t.id, UpdateName: workflows.SendUpdate,
			Args: []any{workflows.Message{ID: t.id, Text: t.text,
				Plan: t.plan}}, WaitForStage: sdk.WorkflowUpdateStageCompleted},
	})
	if err != nil {
		return "", err
	}
	var sent workflows.SendResult
	if err := handle.Get(ctx, &sent); err != nil {
		return "", err
	}
	return handle.RunID(), nil
}

// errUndecided reports that the message's outcome is not known yet.
var errUndecided = errors.New("the result is not known")

// result waits for a turn as any Temporal client does, and returns its result, failed and cancelled turns included. If
// the turn has handed the message on, because it came too late, it asks the journal for the turn that has it.
func (u *user) result(ctx context.Context, t turnPlan, run string) (workflows.Result, error) {
	for {
		var res workflows.Result
		err := u.client.GetWorkflow(ctx, t.session, run).Get(ctx, &res)
		var app *temporal.ApplicationError
		var cancelled *temporal.CanceledError
		var ended *temporal.WorkflowExecutionError
		known := err == nil || errors.As(err, &app) && app.HasDetails() && app.Details(&res) == nil ||
			errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&res) == nil
		switch {
		case known && slices.Contains(res.Left, t.id):
			return u.delivered(ctx, t)
		case known:
			return res, nil
		case errors.As(err, &ended):
			return res, err
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return res, errUndecided
		}
	}
}

// delivered waits for the end of the turn that took a message.
func (u *user) delivered(ctx context.Context, t turnPlan) (workflows.Result, error) {
	for {
		res, err := u.people.Wait(ctx, client.Turn{Session: t.session, MessageID: t.id, Merged: true})
		if err == nil {
			return res.Result, nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return workflows.Result{}, errUndecided
		}
	}
}

// follow records every event of a turn as it arrives, until the turn or ctx ends.
func (l *ledger) follow(ctx context.Context, j *journal.DB, turnID string) {
	reader := client.New(nil, client.Options{Journal: j})
	for event, err := range reader.Follow(ctx, client.Turn{ID: turnID}, -1) {
		if err != nil {
			return // a refused reader comes back; what it has read stands
		}
		l.write(check.Entry{Event: check.EventRead, At: time.Now(), Turn: turnID, Index: event.Index,
			Kind: string(event.Kind), Text: event.Text})
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func inDir(dir string, names ...string) string {
	return filepath.Join(append([]string{dir}, names...)...)
}
