package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// withApprovals gives the target a step whose calls need approval, beside one call that does not: some are to be
// allowed and one is to be denied.
func withApprovals(r *harness) { guard(r, r.target) }

func guard(r *harness, t *turnPlan) {
	t.add(1, func(int) string { return again })
	kinds := []string{once, once, quick, echo}
	t.add(3+r.rng.IntN(2), func(i int) string { return kinds[i] })
	for i, mark := range []string{askMark, denyMark, askMark} {
		t.steps[1][i].key = mark + t.steps[1][i].key
	}
}

// asking gives the target a question in place of its second step, and the schedule an answer to it.
func asking(r *harness) {
	r.target.add(1, func(int) string { return again })
	r.target.add(1, func(int) string { return askUser })
	r.target.steps[1][0].key = "Which of them do you mean by " + r.target.id + "?"
	t := newTurn(r.rng, r.target.session, 4)
	t.text = "The one of " + t.id + "."
	t.add(1, func(int) string { return once })
	r.answering = r.plan(t)
}

// peopleDie makes a point at which the first worker ends itself while a client decides what the target waits for.
func peopleDie(name, about, at string, shape func(*harness)) point {
	return point{
		name: name, about: about, interruptions: 1, shape: shape,
		weak: func(*harness) []string { return []string{"-kill", at} },
		act: func(ctx context.Context, r *harness) error {
			r.attend()
			if err := r.askTarget(ctx); err != nil {
				return err
			}
			if err := r.died(ctx); err != nil {
				return err
			}
			return errors.Join(r.heal(ctx), r.heard(ctx))
		},
	}
}

// heard makes the run wait for a question's answer as for every message, once the answer was given.
func (r *harness) heard(ctx context.Context) error {
	if r.answering == nil {
		return nil
	}
	err := reach(ctx, "an answer", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.answering.id[:min(7, len(r.answering.id))] == "answer:"
	})
	r.told(ctx, r.answering)
	return err
}

// waiting makes a point at which something breaks while the target waits for decisions. A client decides from the
// moment when broken says so, or else at the end.
func whileWaiting(name, about string, shape func(*harness), broken func(context.Context, *harness) error) point {
	return point{name: name, about: about, shape: shape, interruptions: 1, act: func(ctx context.Context, r *harness) error {
		if err := r.askToWait(ctx); err != nil {
			return err
		}
		if err := broken(ctx, r); err != nil {
			return err
		}
		r.attend()
		return r.heard(ctx)
	}}
}

// ofServer marks a point that affects Temporal's server.
func ofServer(p point) point {
	p.ownServer, p.interruptions = true, 3
	return p
}

// people returns the points around requests, decisions and messages in the middle of a turn.
func people() []point {
	return slices.Concat(approvals(), questions(), joins(), lateMessages(), stopped(), journalAtRequests())
}

func approvals() []point {
	return []point{
		peopleDie("ask_before", "nobody was asked yet", "Ask:before:1", withApprovals),
		peopleDie("ask_after", "people were asked and the workflow does not know", "Ask:after:1", withApprovals),
		whileWaiting("wait_idle", "the worker dies while the turn waits; the word comes to the next one", withApprovals, killAndHeal),
		whileWaiting("wait_dead", "the word comes while no worker is there", withApprovals, speakToNobody),
		peopleDie("decide_before", "a decision is accepted and not in the journal", "Decide:before:1", withApprovals),
		peopleDie("decide_after", "a decision is in the journal and the workflow does not know", "Decide:after:1", withApprovals),
		peopleDie("decide_claim", "all is decided and no call is claimed", "ClaimCall:before:2", withApprovals),
		ofServer(whileWaiting("server_waiting", "the server is killed while the turn waits", withApprovals,
			func(ctx context.Context, r *harness) error { return r.crash(ctx) })),
		ofServer(whileWaiting("server_decided", "the server is killed when a decision was acknowledged", withApprovals, crashAtDecision)),
		ofServer(whileWaiting("both_waiting", "server and worker die while the turn waits", withApprovals, loseBoth)),
		whileWaiting("decide_20", "20 clients decide about one call, half of them against it", withApprovals, decideInCrowd),
		whileWaiting("decide_crossed", "two sessions wait, and each gets the other's approval", approvalsInTwoSessions, crossApprovals),
	}
}

func killAndHeal(ctx context.Context, r *harness) error {
	r.first().kill()
	return r.heal(ctx)
}

func speakToNobody(ctx context.Context, r *harness) error {
	r.first().kill()
	r.attend()
	if err := reach(ctx, "somebody who speaks", func() bool { return r.decisions.Load() > 0 }); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil { // long enough to reach the server, which keeps nothing of it
		return err
	}
	return r.heal(ctx)
}

func crashAtDecision(ctx context.Context, r *harness) error {
	list, err := r.waiting(ctx, r.target.session, 1)
	if err != nil {
		return err
	}
	if err := r.user.decide(ctx, list[0], wanted(list[0])); err != nil {
		return err
	}
	return r.crash(ctx)
}

func loseBoth(ctx context.Context, r *harness) error {
	r.first().kill()
	if err := r.crash(ctx); err != nil {
		return err
	}
	r.attend()
	return r.heal(ctx)
}

// decideInCrowd has 20 clients decide the first of the target's calls. Another request stays open, so that the turn
// receives all 20 decisions.
func decideInCrowd(ctx context.Context, r *harness) error {
	list, err := r.waiting(ctx, r.target.session, 2)
	if err != nil {
		return err
	}
	refused := make([]bool, 20)
	var crowd sync.WaitGroup
	for i := range refused {
		crowd.Go(func() { refused[i] = r.user.decide(ctx, list[0], i%2 == 0) != nil })
	}
	crowd.Wait()
	counts := map[bool]int{} // by decision
	for i, no := range refused {
		if no {
			counts[i%2 == 0]++
		}
	}
	if counts[true]+counts[false] != 10 || counts[true]*counts[false] != 0 {
		return fmt.Errorf("10 of 20 decisions should be refused, all of one kind: %d to allow and %d to deny were",
			counts[true], counts[false])
	}
	return nil
}

func approvalsInTwoSessions(r *harness) {
	guard(r, r.target)
	*r.companion = newTurn(r.rng, r.companion.session, 2)
	guard(r, r.companion)
}

// crossApprovals sends each session's approval to the other session, in every way in which it can be misdirected.
func crossApprovals(ctx context.Context, r *harness) error {
	r.converse(ctx, r.companion, false)
	theirs, err := r.waiting(ctx, r.companion.session, 1)
	if err != nil {
		return err
	}
	ours, err := r.waiting(ctx, r.target.session, 1)
	if err != nil {
		return err
	}
	cross := func(to, of turn.Request, turnID string) error {
		of.Session, of.Turn = to.Session, turnID
		if err := r.user.decide(ctx, of, true); err == nil {
			return fmt.Errorf("session %s took the approval of another one's call (turn %q)", to.Session, turnID)
		}
		return nil
	}
	return errors.Join(cross(ours[0], theirs[0], ours[0].Turn), cross(ours[0], theirs[0], theirs[0].Turn),
		cross(ours[0], theirs[0], ""),
		cross(theirs[0], ours[0], theirs[0].Turn), cross(theirs[0], ours[0], ours[0].Turn), cross(theirs[0], ours[0], ""))
}

func questions() []point {
	return []point{
		peopleDie("question_before", "the user was not asked yet", "Ask:before:1", asking),
		peopleDie("question_after", "the user was asked and the workflow does not know", "Ask:after:1", asking),
		whileWaiting("question_idle", "the worker dies while the turn waits for an answer", asking, killAndHeal),
		whileWaiting("question_dead", "the answer comes while no worker is there", asking, speakToNobody),
		peopleDie("question_decide", "the answer is accepted and not in the journal", "Decide:before:1", asking),
		peopleDie("question_joined", "the answer is in the transcript and the model was not asked", "StartInference:after:3",
			asking),
	}
}

// joining gives the schedule a second message for the target's session.
func joining(shape func(*harness), after bool) func(*harness) {
	return func(r *harness) {
		shape(r)
		t := newTurn(r.rng, r.target.session, 4)
		t.add(1, func(int) string { return once })
		t.after = after
		r.second = r.plan(t)
	}
}

// interject sends the second message when the target has reached the given point, and breaks something when the message
// is acknowledged.
func interject(name, about string, shape func(*harness), reached func(*harness, context.Context) error,
	then func(context.Context, *harness) error) point {
	return point{name: name, about: about, shape: shape, interruptions: 1, act: func(ctx context.Context, r *harness) error {
		if err := reached(r, ctx); err != nil {
			return err
		}
		if _, err := r.user.tell(ctx, *r.second); err != nil {
			return err
		}
		r.told(ctx, r.second)
		return then(ctx, r)
	}}
}

func joins() []point {
	inCall := func(r *harness, ctx context.Context) error { return r.askToEvent(ctx, "begun") }
	killAndRelease := func(ctx context.Context, r *harness) error {
		r.first().kill()
		return errors.Join(r.release(), r.openGate(), r.heal(ctx))
	}
	alone := func(r *harness, ctx context.Context) error {
		return errors.Join(r.askTarget(ctx), r.noted(ctx, "begun", r.blocked().key))
	}
	started := interject("join_started", "a message has joined, is in the transcript, and the worker dies",
		joining(block(once, "before"), false), alone,
		func(ctx context.Context, r *harness) error { return errors.Join(r.release(), r.died(ctx), r.heal(ctx)) })
	started.weak = func(r *harness) []string { return []string{"-kill", "StartInference:after:3"} }
	return []point{
		interject("join_call", "a message is accepted in mid-call and the worker dies before the next inference",
			joining(block(once, "before"), false), inCall, killAndRelease),
		started,
		interject("join_late", "a message is accepted in the last inference and the worker dies", joining(hold, false),
			(*harness).askToGate, killAndRelease),
		interject("join_after", "a message for the next turn is accepted and the worker dies",
			joining(block(once, "before"), true), inCall, killAndRelease),
		interject("join_20", "20 clients send the same message to a turn in mid-call", joining(block(once, "before"), false),
			inCall, joinInCrowd),
	}
}

func joinInCrowd(ctx context.Context, r *harness) error {
	errs := make([]error, 20)
	var crowd sync.WaitGroup
	for i := range errs {
		crowd.Go(func() { _, errs[i] = r.user.tell(ctx, *r.second) })
	}
	crowd.Wait()
	return errors.Join(append(errs, r.release())...)
}

// promptly is how soon a stopped turn is over once a worker has seen the stop.
const promptly = 2 * time.Second

// halts makes a point at which the operator stops the target while a worker is alive to see it. What is held is
// released when the turn is over.
func halts(name, about string, shape func(*harness), reached func(*harness, context.Context) error,
	release func(*harness) error) point {
	return point{name: name, about: about, interruptions: 1, shape: func(r *harness) {
		shape(r)
		r.stopWithin = promptly
	}, act: func(ctx context.Context, r *harness) error {
		if err := reached(r, ctx); err != nil {
			return err
		}
		if err := r.stop(ctx); err != nil {
			return err
		}
		over := reach(ctx, "the end of the stopped turn", func() bool { return r.over(ctx, r.target) })
		return errors.Join(over, release(r))
	}}
}

func stopped() []point {
	stopAndKill := func(ctx context.Context, r *harness) error {
		err := r.stop(ctx)
		r.first().kill()
		return errors.Join(err, r.heal(ctx))
	}
	inCall := func(event string) func(*harness, context.Context) error {
		return func(r *harness, ctx context.Context) error { return r.askToEvent(ctx, event) }
	}
	nothing := func(*harness) error { return nil }
	return []point{
		whileWaiting("stop_waiting", "a turn that waits for approvals is stopped and the worker dies", withApprovals, stopAndKill),
		halts("stop_waiting_turn", "a turn that waits for approvals is stopped", withApprovals, (*harness).askToWait, nothing),
		halts("stop_stream", "a turn is stopped while the model's answer hangs", hold, (*harness).askToGate, (*harness).openGate),
		halts("stop_tool", "a turn is stopped while a call hangs before its effect", block(once, "before"), inCall("begun"),
			(*harness).release),
		halts("stop_tool_effect", "a turn is stopped while a call hangs after its effect", block(once, "after"),
			inCall("effect"), (*harness).release),
		interject("stop_joined", "a turn is stopped that a message has joined", joining(block(once, "before"), false),
			inCall("begun"),
			func(ctx context.Context, r *harness) error {
				over := func() error {
					return reach(ctx, "the end of the stopped turn", func() bool { return r.over(ctx, r.target) })
				}
				return errors.Join(r.stop(ctx), over(), r.release())
			}),
	}
}

// journalAtRequests returns the journal's faults at the writes around a request.
func journalAtRequests() []point {
	at := func(name, about, where string, broken func(context.Context, *harness) error) point {
		return point{
			name: name, about: about, shape: withApprovals, interruptions: 25,
			weak: func(*harness) []string { return []string{"-hold", where} },
			act: func(ctx context.Context, r *harness) error {
				r.attend()
				if err := r.askTarget(ctx); err != nil {
					return err
				}
				if err := r.heldAt(ctx); err != nil {
					return err
				}
				return broken(ctx, r)
			},
		}
	}
	locked := func(ctx context.Context, r *harness) error { return r.lockJournal(ctx, r.lockFor(), r.resume) }
	full := func(ctx context.Context, r *harness) error { return r.fillDisk(ctx, r.resume) }
	return []point{
		at("journal_locked_ask", "the journal is locked when people are to be asked", "Ask:before:1", locked),
		at("journal_locked_decide", "the journal is locked when a decision comes", "Decide:before:1", locked),
		at("disk_full_ask", "the disk is full when people are to be asked", "Ask:before:1", full),
		at("disk_full_decide", "the disk is full when a decision comes", "Decide:before:1", full),
	}
}
