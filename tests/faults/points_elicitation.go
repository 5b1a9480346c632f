package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/everturn/everturn/workflows/turn"
)

// withElicitation gives the target a call whose server asks for confirmation before it continues, beside a call that
// does not.
func withElicitation(r *harness) { elicit(r, confirm) }

func elicit(r *harness, tool string) {
	r.target.add(1, func(int) string { return again })
	kinds := []string{tool, echo}
	r.target.add(2, func(i int) string { return kinds[i] })
	if r.rng.IntN(2) == 0 {
		r.target.steps[1][0].times = 2
	}
}

// elicitations returns the points around elicitations in the middle of calls.
func elicitations() []point { return append(suspensions(), holds()...) }

// suspensions returns the points around calls of servers of the newest protocol: nothing is held meanwhile, and the
// call continues wherever there is a worker and a process of its server.
func suspensions() []point {
	once := func(r *harness) {
		withElicitation(r)
		r.target.steps[1][0].times = 0
	}
	twice := func(r *harness) {
		withElicitation(r)
		r.target.steps[1][0].times = 2
	}
	return []point{
		whileWaiting("elicitation_idle", "the worker dies while a call waits for a person", withElicitation, killAndHeal),
		whileWaiting("elicitation_dead", "the reply comes while no worker is there", withElicitation, speakToNobody),
		peopleDie("elicitation_asked", "a server has asked, and the journal does not know", "SuspendCall:before:1", once),
		peopleDie("elicitation_kept", "what goes on with the call is in the journal, and the workflow does not know",
			"SuspendCall:after:1", withElicitation),
		peopleDie("elicitation_again", "a reply was handed over, and only the journal knows what the server has asked after that",
			"SuspendCall:after:2", twice),
		peopleDie("elicitation_decide", "a reply is accepted and not in the journal", "Decide:before:1", withElicitation),
		peopleDie("elicitation_decided", "a reply is in the journal and the workflow does not know", "Decide:after:1", withElicitation),
		peopleDie("elicitation_unclaimed", "a reply is to be handed over and the call is not claimed again", "ClaimCall:before:4",
			withElicitation),
		peopleDie("elicitation_claimed", "the call is claimed again and the reply was not handed over", "ClaimCall:after:4",
			once),
		{
			name: "elicitation_effect", about: "the reply was handed over and has had its effect", interruptions: 1,
			shape: func(r *harness) {
				once(r)
				r.target.steps[1][0].block = "after"
			},
			act: func(ctx context.Context, r *harness) error {
				r.attend()
				if err := errors.Join(r.askTarget(ctx), r.noted(ctx, "effect", r.blocked().key)); err != nil {
					return err
				}
				r.first().kill()
				return errors.Join(r.release(), r.heal(ctx))
			},
		},
		whileWaiting("elicitation_20", "20 clients reply to one question, each something else", once, replyInCrowd),
		moved(),
	}
}

// holds returns the points around calls that a server of an older protocol holds open while its worker waits. A call
// that has lost its worker or its server is unknown, and takes no response.
func holds() []point {
	minute := held("1m")
	killWorker := func(r *harness) error { r.first().kill(); return nil }
	killServer := func(r *harness) error {
		pid, err := r.mcpServer("once")
		if err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	asked := peopleDie("elicitation_held_asked", "a server holds its call, and only the journal knows what it has asked",
		"Ask:after:1", minute)
	replied := peopleDie("elicitation_held_decided", "the reply is in the journal, and the worker dies that holds the call",
		"Decide:after:1", minute)
	effect := point{
		name: "elicitation_held_effect", about: "the reply has reached the held call and has had its effect", interruptions: 1,
		shape: func(r *harness) {
			minute(r)
			r.target.steps[1][0].block = "after"
		},
		act: func(ctx context.Context, r *harness) error {
			r.attend()
			if err := errors.Join(r.askTarget(ctx), r.noted(ctx, "effect", r.blocked().key)); err != nil {
				return err
			}
			r.first().kill()
			return errors.Join(r.release(), r.heal(ctx))
		},
	}
	again := point{name: "elicitation_held_again", about: "a server holds its call and asks three times",
		shape: func(r *harness) {
			minute(r)
			r.target.steps[1][0].times = 3
		},
		act: func(ctx context.Context, r *harness) error {
			r.attend()
			return r.askTarget(ctx)
		}}
	return []point{
		replied, // the call may end before its worker
		became(asked, verdict{turn.OutcomeUnknown, 0, 0}),
		became(effect, verdict{turn.OutcomeUnknown, 1, 1}),
		became(again, verdict{turn.OutcomeOK, 1, 1}),
		became(whileWaiting("elicitation_held_worker", "the worker dies whose server holds a call", minute,
			closes(killWorker)), verdict{turn.OutcomeUnknown, 0, 0}),
		became(whileWaiting("elicitation_held_server", "the server dies that holds a call", minute, closes(killServer)),
			verdict{turn.OutcomeUnknown, 0, 0}),
		became(whileWaiting("elicitation_held_late", "a held call gets no response in time", held("3s"),
			closes(func(*harness) error { return nil })), verdict{turn.OutcomeOK, 0, 0}),
	}
}

// held gives the target a call whose server holds it open for at most the time within.
func held(within string) func(*harness) {
	return func(r *harness) {
		r.settings.older = within
		r.target.add(1, func(int) string { return again })
		r.target.add(1, func(int) string { return confirm })
	}
}

// became makes a point check what became of the held call.
func became(p point, want verdict) point {
	p.then = func(ctx context.Context, r *harness) error { return r.became(ctx, r.target.steps[1][0].key, want) }
	return p
}

// closes breaks something and checks that the request of the held call closes, and that a reply to it is refused.
func closes(broken func(*harness) error) func(context.Context, *harness) error {
	return func(ctx context.Context, r *harness) error {
		list, err := r.waiting(ctx, r.target.session, 1)
		if err != nil {
			return err
		}
		if err := errors.Join(broken(r), r.heal(ctx)); err != nil {
			return err
		}
		err = reach(ctx, "the end of the request", func() bool {
			open, err := r.journal.PendingRequests(ctx, r.target.session, 100)
			return err == nil && len(open) == 0
		})
		if err == nil && r.user.reply(ctx, list[0], "too late") == nil && !r.over(ctx, r.target) {
			err = errors.New("the turn took a reply to a request that was closed")
		}
		return err
	}
}

// moved makes a point at which a call continues with another worker and another process of its server.
func moved() point {
	p := whileWaiting("elicitation_moved", "worker and server are replaced while a call waits for a person", func(r *harness) {
		r.settings.stateless = true
		elicit(r, "mcp_remote_confirm")
	},
		func(ctx context.Context, r *harness) error {
			r.first().kill()
			r.remoteServer.signal(syscall.SIGKILL)
			<-r.remoteServer.done
			if _, err := r.startRemote(ctx, hostOf(r.settings.remote)); err != nil {
				return err
			}
			return r.heal(ctx)
		})
	p.prepare = (*harness).serveDirectly
	return p
}

// replyInCrowd has 20 clients respond at once. One response counts.
func replyInCrowd(ctx context.Context, r *harness) error {
	list, err := r.waiting(ctx, r.target.session, 1)
	if err != nil {
		return err
	}
	refused := make([]bool, 20)
	var crowd sync.WaitGroup
	for i := range refused {
		crowd.Go(func() { refused[i] = r.user.reply(ctx, list[0], fmt.Sprint("number ", i)) != nil })
	}
	crowd.Wait()
	n := 0
	for _, no := range refused {
		if no {
			n++
		}
	}
	if n != len(refused)-1 && !r.over(ctx, r.target) {
		return fmt.Errorf("%d of %d replies were refused: all but one should be", n, len(refused))
	}
	return nil
}
