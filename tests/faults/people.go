package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// decide sends a decision about a call until the turn accepts or refuses it. If the turn has ended by then, the
// decision has either been applied or is of no use.
func (u *user) decide(ctx context.Context, w turn.Request, allow bool) error {
	e := check.Entry{Event: check.Deciding, At: time.Now(), Session: w.Session, Turn: w.Turn, Call: w.ID,
		Hash: w.ArgumentsHash, Allow: allow}
	u.ledger.write(e)
	for {
		_, err := u.people.Decide(ctx, client.DecideInput{Session: w.Session, Turn: w.Turn, Request: w.ID, Allow: allow,
			ArgumentsHash: w.ArgumentsHash, By: "the schedule"})
		var no *turn.Error
		e.At = time.Now()
		switch {
		case err == nil:
			e.Event = check.Decided
			u.ledger.write(e)
			return nil
		case errors.As(err, &no):
			e.Event, e.Error = check.Refused, no.Error()
			u.ledger.write(e)
			return err
		case errors.Is(err, client.ErrNotRunning):
			return nil
		}
		u.failures.Add(1)
		if pause(ctx, 100*time.Millisecond) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// tell sends a message to a session that may be busy, and returns when it is acknowledged.
func (u *user) tell(ctx context.Context, t turnPlan) (client.Turn, error) {
	u.ledger.write(check.Entry{Event: check.Sending, At: time.Now(), Session: t.session, Message: t.id, Text: t.text})
	for {
		a, err := u.people.Send(ctx, client.SendInput{Session: t.session,
			Message: workflows.Message{ID: t.id, Text: t.text, Plan: t.plan, Queue: t.after}})
		if err == nil {
			u.ledger.write(check.Entry{Event: check.Acknowledged, At: time.Now(), Session: t.session, Message: t.id, Turn: a.ID})
			u.acks.Add(1)
			return a, nil
		}
		u.failures.Add(1)
		if pause(ctx, 100*time.Millisecond) != nil {
			return a, errors.Join(context.Cause(ctx), err)
		}
	}
}

// answer answers a question. The answer becomes a message of the turn.
func (u *user) answer(ctx context.Context, w turn.Request, t turnPlan) error {
	u.ledger.write(check.Entry{Event: check.Sending, At: time.Now(), Session: t.session, Message: t.id, Text: t.text})
	for {
		err := u.people.Answer(ctx, client.DecideInput{Session: w.Session, Turn: w.Turn, Request: w.ID, Text: t.text,
			By: "the schedule"})
		var no *turn.Error
		if err == nil {
			u.ledger.write(check.Entry{Event: check.Acknowledged, At: time.Now(), Session: t.session, Message: t.id,
				Turn: w.Turn})
		}
		// If the acknowledgement of an answer was lost, the turn refuses the repeated one because it already has an answer.
		// The journal shows whether it is this one.
		if err == nil || errors.As(err, &no) || errors.Is(err, client.ErrNotRunning) {
			return nil
		}
		u.failures.Add(1)
		if pause(ctx, 100*time.Millisecond) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// reply responds to a server's elicitation. It returns the turn's error if the turn refuses the response.
func (u *user) reply(ctx context.Context, w turn.Request, note string) error {
	content, err := json.Marshal(map[string]any{"sure": true, "note": note})
	if err != nil {
		return err
	}
	u.ledger.write(check.Entry{Event: check.Deciding, At: time.Now(), Session: w.Session, Turn: w.Turn, Call: w.ID,
		Allow: true, Text: note})
	for {
		err := u.people.Respond(ctx, client.DecideInput{Session: w.Session, Turn: w.Turn, Request: w.ID, By: "the schedule",
			Response: &turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: content}})
		var no *turn.Error
		switch {
		case err == nil, errors.Is(err, client.ErrNotRunning):
			return nil
		case errors.As(err, &no):
			u.ledger.write(check.Entry{Event: check.Refused, At: time.Now(), Session: w.Session, Turn: w.Turn, Call: w.ID,
				Error: no.Error()})
			return err
		}
		u.failures.Add(1)
		if pause(ctx, 100*time.Millisecond) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// told waits in the background until the turn that took a message is over, and records the result that a client gets
// then.
func (r *harness) told(ctx context.Context, t *turnPlan) {
	r.asking++
	go func() {
		ctx, cancel := context.WithTimeout(ctx, 2*within)
		defer cancel()
		res, err := r.user.delivered(ctx, *t)
		if err != nil {
			r.asked <- fmt.Errorf("message %s: %w", t.id, err)
			return
		}
		r.user.ledger.write(check.Entry{Event: check.Answered, At: time.Now(), Session: t.session, Message: t.id,
			Turn: res.Turn, State: string(res.State), Reason: string(res.FinishReason), Answer: res.Answer})
		r.asked <- nil
	}()
}

// waiting waits until a session has n open requests, and returns them.
func (r *harness) waiting(ctx context.Context, session string, n int) (list []turn.Request, err error) {
	err = reach(ctx, fmt.Sprintf("%d waits of %s", n, session), func() bool {
		list, err = r.journal.PendingRequests(ctx, session, 100)
		return err == nil && len(list) >= n || r.over(ctx, r.target)
	})
	if err == nil && len(list) < n {
		err = fmt.Errorf("the turn is over and has waited for nobody")
	}
	return list, err
}

// attend decides every request from now on, as soon as the journal shows it. It pauses while nothing is under way.
func (r *harness) attend() { r.attending.Do(r.attendTo) }

func (r *harness) attendTo() {
	ctx := r.reading
	seen := map[string]bool{}
	r.readers.Go(func() {
		for ctx.Err() == nil {
			changed := r.journal.Changed(ctx)
			list, err := r.journal.PendingRequests(ctx, "", 100)
			for _, w := range list {
				if err == nil && !seen[w.Turn+w.ID] {
					seen[w.Turn+w.ID] = true
					r.readers.Go(func() { r.speak(ctx, w) })
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
}

// speak decides one request. The ledger records a refusal, which the checker judges.
func (r *harness) speak(ctx context.Context, w turn.Request) {
	r.decisions.Add(1)
	if w.Kind == turn.RequestApproval {
		_ = r.user.decide(ctx, w, wanted(w))
		return
	}
	if w.Kind == turn.RequestElicitation {
		_ = r.user.reply(ctx, w, "for "+w.ID)
		return
	}
	if t := r.answering; t != nil {
		r.mu.Lock()
		t.id = workflows.AnswerID(w.Turn, w.ID)
		r.mu.Unlock()
		_ = r.user.answer(ctx, w, *t)
	}
}

// wanted reports whether the schedule allows a call.
func wanted(w turn.Request) bool { return !strings.Contains(w.Arguments, denyMark) }

// askTarget arms the points and sends only the target, so that the counted calls are the target's.
func (r *harness) askTarget(ctx context.Context) error {
	if err := r.arm(); err != nil {
		return err
	}
	r.converse(ctx, r.target, r.rng.IntN(2) == 0)
	return nil
}

// askToWait asks the target and waits until it waits for a decision.
func (r *harness) askToWait(ctx context.Context) error {
	if err := r.askTarget(ctx); err != nil {
		return err
	}
	_, err := r.waiting(ctx, r.target.session, 1)
	return err
}

// resume releases a worker that is held at its point.
func (r *harness) resume() error { return os.WriteFile(inDir(r.dir, "resume"), nil, 0o600) }

// heldAt waits until a worker is held at its point.
func (r *harness) heldAt(ctx context.Context) error {
	return reach(ctx, "the worker's point", func() bool {
		info, err := os.Stat(inDir(r.dir, "points.jsonl"))
		return err == nil && info.Size() > 0
	})
}

// stop stops the target's turn.
func (r *harness) stop(ctx context.Context) error {
	r.stopped = append(r.stopped, r.target.id)
	return r.user.people.Stop(ctx, r.target.session)
}
