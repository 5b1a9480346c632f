package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
)

// dies makes a point at which the first worker ends itself. nth returns which call of the journal's method ends it.
func dies(name, about, at string, nth func(r *harness) int) point {
	return point{
		name: name, about: about, interruptions: 1, shape: busy,
		weak: func(r *harness) []string { return []string{"-kill", fmt.Sprintf("%s:%d", at, nth(r))} },
		act: func(ctx context.Context, r *harness) error {
			if err := r.ask(ctx); err != nil {
				return err
			}
			if err := r.died(ctx); err != nil {
				return err
			}
			return r.heal(ctx)
		},
	}
}

// diesInserting makes a point at which the first worker dies in the transaction that inserts a row.
func diesInserting(name, about, table string, nth func(r *harness) int) point {
	return point{
		name: name, about: about, interruptions: 1, shape: busy,
		weak: func(r *harness) (flags []string) {
			flags, r.die = r.database.insert(table, nth(r))
			return flags
		},
		act: func(ctx context.Context, r *harness) error { return errors.Join(r.die(ctx, r), r.heal(ctx)) },
	}
}

// busy gives the target two or three steps with calls of all kinds, and a slow answer.
func busy(r *harness) {
	for range 2 + r.rng.IntN(2) {
		r.target.add(1+r.rng.IntN(3), func(int) string { return tools[r.rng.IntN(len(tools))] })
	}
	r.adapt = func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
		if t.id == r.target.id && q.Step == len(t.steps) {
			return reply.Delay(25 * time.Millisecond)
		}
		return reply
	}
}

func firstOf(*harness) int { return 1 }

// anyCall and anyStep pick one of the target's calls or inferences. The companion's are additional.
func anyCall(r *harness) int { return 1 + r.rng.IntN(r.target.calls()) }

func anyMessage(r *harness) int { return 1 + r.rng.IntN(r.target.calls()+len(r.target.steps)+2) }

func anyStep(r *harness) int { return 1 + r.rng.IntN(len(r.target.steps)+1) }

// killsInside returns the points inside the worker, by the journal's methods.
func killsInside() []point {
	return []point{
		dies("begin_before", "the message is not in the journal", "Begin:before", firstOf),
		dies("begin_after", "the message is in the journal and the workflow does not know", "Begin:after", firstOf),
		dies("infer_before", "results are settled and not in the transcript", "StartInference:before", anyStep),
		dies("infer_started", "an attempt is open and nothing was sent", "StartInference:after", anyStep),
		dies("answer_before", "the answer is complete and not settled", "SettleInference:before", anyStep),
		dies("answer_after", "the answer is settled and not reported", "SettleInference:after", anyStep),
		dies("event_before", "text has come and was not appended", "AppendEvents:before", firstOf),
		dies("event_after", "text was appended in mid-answer", "AppendEvents:after", firstOf),
		dies("claim_before", "a call is not claimed", "ClaimCall:before", anyCall),
		dies("claim_after", "a call is claimed and not sent", "ClaimCall:after", anyCall),
		dies("settle_before", "a call has its effect and is not settled", "SettleCall:before", anyCall),
		dies("settle_after", "a call is settled and not reported", "SettleCall:after", anyCall),
		dies("finish_before", "the answer is there and the turn is not settled", "Finish:before", firstOf),
		dies("finish_after", "the turn is settled and the workflow has not closed", "Finish:after", firstOf),
		diesInserting("append_message", "in the transaction that appends to the transcript", "messages", anyMessage),
		diesInserting("append_event", "in the transaction that appends events", "events",
			func(r *harness) int { return 1 + r.rng.IntN(2*r.target.calls()+2) }),
		diesInserting("append_call", "in the transaction that claims", "calls", anyCall),
		diesInserting("append_inference", "in the transaction that opens an inference", "inferences", anyStep),
	}
}

// block makes the target's second step one that waits on a side of its effect.
func block(tool, side string) func(r *harness) {
	return func(r *harness) {
		r.target.add(1+r.rng.IntN(2), func(int) string { return tools[r.rng.IntN(len(tools))] })
		kinds := []string{tool, echo, again}
		r.target.add(1+r.rng.IntN(3), func(i int) string { return kinds[i] })
		r.target.steps[1][0].block = side
	}
}

// blocked returns the call that waits.
func (r *harness) blocked() *callPlan { return &r.target.steps[1][0] }

// killInCall makes a point in the middle of a call, seen in the tool's own ledger.
func killInCall(name, about, tool, side, event string) point {
	return point{name: name, about: about, interruptions: 1, shape: block(tool, side),
		act: func(ctx context.Context, r *harness) error {
			if err := r.askToEvent(ctx, event); err != nil {
				return err
			}
			r.first().kill()
			if err := r.release(); err != nil {
				return err
			}
			return r.heal(ctx)
		}}
}

// askToEvent asks the target and waits until the tool's ledger has an event of the call that waits.
func (r *harness) askToEvent(ctx context.Context, event string) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	return r.noted(ctx, event, r.blocked().key)
}

// hold stops the provider's answer to the target's last step, the first time that it is requested.
func hold(r *harness) {
	busy(r)
	before := r.adapt
	at := 2 + r.rng.IntN(3)
	r.adapt = func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
		if reply = before(q, t, reply); t.id == r.target.id && q.Step == len(t.steps) && q.Attempt == 1 {
			return reply.Hold(at, r.gate)
		}
		return reply
	}
}

// askToGate asks the target and waits until its last answer is held.
func (r *harness) askToGate(ctx context.Context) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	return r.atGate(ctx)
}

// killsOutside returns the points that are seen from outside the worker.
func killsOutside() []point {
	return slices.Concat([]point{
		killInCall("begun", "a call that may not be repeated has reached its tool", once, "before", "begun"),
		killInCall("effect", "it had its effect and has not answered", once, "after", "effect"),
		killInCall("begun_again", "a repeatable call has reached its tool", again, "before", "begun"),
		killInCall("effect_again", "it had its effect and has not answered", again, "after", "effect"),
		killInCall("begun_quick", "a call in the workflow task has reached its tool", quick, "before", "begun"),
		{
			name: "inference", about: "the provider is in the middle of its answer", interruptions: 1, shape: hold,
			act: func(ctx context.Context, r *harness) error {
				if err := r.askToGate(ctx); err != nil {
					return err
				}
				r.first().kill()
				r.gate.Release()
				return r.heal(ctx)
			},
		},
		{
			name: "idle", about: "no turn is under way", shape: busy,
			act: func(ctx context.Context, r *harness) error {
				r.first().kill()
				if err := r.heal(ctx); err != nil {
					return err
				}
				return r.ask(ctx)
			},
		},
	}, zombies())
}
