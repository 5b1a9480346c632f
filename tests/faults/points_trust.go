package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// faces are the faces that append may have after it has changed from the accepted version.
var faces = []string{"description", "schema", "annotations"}

// trusted returns the points around servers that are not what they were: servers whose tools change, whose text is
// untrusted, that talk without end, that are slow, and that lose their state.
func trusted() []point {
	return []point{
		drifts("drift_before", "a tool changes, and the worker dies before it has said so", "PublishCatalogue:before:1"),
		drifts("drift_after", "a tool changes, and the worker dies when the journal knows", "PublishCatalogue:after:1"),
		{name: "drift_pinned", about: "a tool changes in the middle of a turn that may call it", shape: pinned,
			act: changeInCall, then: accept},
		taints("taint_settled", "somebody's words are in the journal, and the worker dies", "SettleCall:after:1"),
		taints("taint_asked", "people were asked because of them, and the worker dies", "Ask:after:1"),
		floods("progress_flood", "a call tells 5,000 times how far it has come",
			func(context.Context, *harness) error { return nil }),
		floods("progress_killed", "and the worker dies meanwhile", killAndHeal),
		{name: "detach_late", about: "a call is given up, goes on and comes to an end", shape: detached, act: endLate,
			then: noticed},
		{name: "detach_killed", about: "a call is given up, goes on, and the worker dies", interruptions: 1, shape: detached,
			act: endNever,
			then: func(ctx context.Context, r *harness) error {
				return r.became(ctx, r.blocked().key, verdict{turn.OutcomeUnknown, 1, 1})
			}},
		forgets("sticky_server", "a server that remembers is killed between two calls",
			func(ctx context.Context, r *harness) error {
				pid, err := r.mcpServer("keeper")
				if err == nil {
					err = syscall.Kill(pid, syscall.SIGKILL)
				}
				return errors.Join(err, reach(ctx, "the end of the server", func() bool { return !alive(pid) }), r.openGate())
			}),
		forgets("sticky_worker", "the worker dies whose server remembers", func(ctx context.Context, r *harness) error {
			r.first().kill()
			return errors.Join(r.openGate(), r.heal(ctx))
		}),
	}
}

// drifts makes a point at which the first worker dies while it publishes a changed tool. The target must not be offered
// the tool until the operator has accepted it.
func drifts(name, about, at string) point {
	return point{
		name: name, about: about, interruptions: 1,
		shape: func(r *harness) {
			r.target.add(2, func(i int) string { return []string{once, again}[i] })
			r.target.add(1, func(int) string { return once })
		},
		weak: func(*harness) []string { return []string{"-kill", at} },
		act: func(ctx context.Context, r *harness) error {
			if err := r.arm(); err != nil {
				return err
			}
			if err := r.change(ctx, faces[r.rng.IntN(len(faces))]); err != nil {
				return err
			}
			return errors.Join(r.died(ctx), r.heal(ctx), r.askTarget(ctx))
		},
		then: accept,
	}
}

// change gives append of the server once another face, which the server announces to its clients.
func (r *harness) change(ctx context.Context, face string) error {
	if err := os.WriteFile(r.faceFile("once"), []byte(face), 0o600); err != nil {
		return err
	}
	pid, err := r.mcpServer("once")
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGHUP)
	}
	return errors.Join(err, r.noted(ctx, "face", face))
}

// pinned gives the target a step that waits, with append in the turn config, and a later step that calls append again.
func pinned(r *harness) {
	block(again, "before")(r)
	r.target.add(2, func(i int) string { return []string{once, again}[i] })
}

func changeInCall(ctx context.Context, r *harness) error {
	if err := r.askTarget(ctx); err != nil {
		return err
	}
	if err := r.noted(ctx, "begun", r.blocked().key); err != nil {
		return err
	}
	return errors.Join(r.change(ctx, faces[r.rng.IntN(len(faces))]), r.release())
}

// accept accepts the changed tool as the operator, without which the last turn lacks a tool. Before that, the new face
// must not have had any effect.
func accept(ctx context.Context, r *harness) error {
	face, err := os.ReadFile(r.faceFile("once"))
	if err != nil {
		return err
	}
	offered := func() bool {
		all := r.model.Requests()
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].Chat.Asked() == r.target.text {
				return len(r.target.callsFor(all[i])) > 0 && strings.Contains(fmt.Sprint(all[i].Chat.ToolNames()), once)
			}
		}
		return false
	}
	if r.target.steps[0][0].tool == once && offered() {
		return errors.New("the model was offered a tool that has changed and that nobody had accepted")
	}
	var held error
	err = reach(ctx, "a tool that is held back", func() bool {
		r.user.ledger.write(check.Entry{Event: check.Accepted, At: time.Now(), Text: string(face)})
		_, held = r.journal.ApproveTools(ctx, journal.ApproveToolsInput{Server: "once", Tools: []string{"append"},
			By: "the schedule", At: time.Now()})
		return held == nil
	})
	return errors.Join(err, held)
}

// taints makes a point at which the first worker dies in a session that has read untrusted text. A client approves
// every call that needs approval.
func taints(name, about, at string) point {
	return point{
		name: name, about: about, interruptions: 1,
		shape: func(r *harness) {
			r.settings.taint = "on"
			r.target.add(1, func(int) string { return echo })
			kinds := []string{once, quick, again}
			r.target.add(1+r.rng.IntN(3), func(i int) string { return kinds[i] })
		},
		prepare: func(r *harness, _ context.Context) error {
			r.attend()
			return nil
		},
		weak: func(*harness) []string { return []string{"-kill", at} },
		act: func(ctx context.Context, r *harness) error {
			return errors.Join(r.askTarget(ctx), r.died(ctx), r.heal(ctx))
		},
	}
}

func floods(name, about string, broken func(context.Context, *harness) error) point {
	return point{
		name: name, about: about, interruptions: 1,
		shape: func(r *harness) {
			r.target.add(1, func(int) string { return again })
			r.target.add(2, func(i int) string { return []string{flood, echo}[i] })
			r.target.steps[1][0].times = 5000
		},
		act: func(ctx context.Context, r *harness) error {
			return errors.Join(r.askTarget(ctx), r.noted(ctx, "begun", r.blocked().key), broken(ctx, r))
		},
	}
}

// detached gives the target a call that is abandoned after its effect, and continues.
func detached(r *harness) {
	r.settings.toolTimeout, r.settings.append = 2*time.Second, "background_timeout = \"1m\"\n"
	block(once, "after")(r)
}

// givenUp waits until the model was told that the call's outcome is unknown.
func givenUp(ctx context.Context, r *harness) error {
	if err := r.askToEvent(ctx, "effect"); err != nil {
		return err
	}
	return reach(ctx, "the step after it", func() bool { return len(r.requests(2)) > 0 })
}

func endLate(ctx context.Context, r *harness) error {
	if err := givenUp(ctx, r); err != nil {
		return err
	}
	return errors.Join(r.release(), r.lateResult(ctx))
}

func endNever(ctx context.Context, r *harness) error {
	if err := givenUp(ctx, r); err != nil {
		return err
	}
	r.first().kill()
	return errors.Join(r.release(), r.heal(ctx))
}

// noticed runs another turn, whose model must be told what became of the call.
func noticed(ctx context.Context, r *harness) error {
	t := r.plan(newTurn(r.rng, r.target.session, 7))
	r.converse(ctx, t, true)
	if err := r.settle(); err != nil {
		return err
	}
	for _, q := range r.model.Requests() {
		for _, m := range q.Chat.Messages {
			if m.Role == "user" && strings.Contains(m.Content, "appended "+r.blocked().key) {
				return r.became(ctx, r.blocked().key, verdict{turn.OutcomeUnknown, 1, 1})
			}
		}
	}
	return errors.New("no model was told what became of the call")
}

// forgets makes a point between two calls of a server that keeps state.
func forgets(name, about string, broken func(context.Context, *harness) error) point {
	return point{
		name: name, about: about, interruptions: 1,
		shape: func(r *harness) {
			r.settings.stateful = true
			for range 3 {
				r.target.add(1, func(int) string { return remember })
			}
			r.adapt = func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
				if t.id == r.target.id && q.Step == 1 && q.Attempt == 1 {
					return reply.Hold(0, r.gate)
				}
				return reply
			}
		},
		act: func(ctx context.Context, r *harness) error {
			if err := errors.Join(r.askTarget(ctx), r.atGate(ctx)); err != nil {
				return err
			}
			return broken(ctx, r)
		},
		then: func(ctx context.Context, r *harness) error {
			calls, err := r.journal.Calls(ctx, r.turnID(ctx))
			if err != nil {
				return err
			}
			for _, c := range calls {
				if strings.Contains(c.Text, "server state lost") {
					return nil
				}
			}
			return fmt.Errorf("nobody was told that the server has forgotten: %+v", calls)
		},
	}
}
