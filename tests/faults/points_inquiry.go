package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// inquiring gives the target a call whose server asks for confirmation before it continues, beside a call that does
// not.
func inquiring(r *rig) { inquire(r, confirm) }

func inquire(r *rig, tool string) {
	r.target.add(1, func(int) string { return again })
	kinds := []string{tool, echo}
	r.target.add(2, func(i int) string { return kinds[i] })
	if r.rng.IntN(2) == 0 {
		r.target.steps[1][0].times = 2
	}
}

// inquiries returns the points around elicitations in the middle of calls: nothing is held meanwhile, and the call
// continues wherever there is a worker and a process of its server.
func inquiries() []point {
	once := func(r *rig) {
		inquiring(r)
		r.target.steps[1][0].times = 0
	}
	twice := func(r *rig) {
		inquiring(r)
		r.target.steps[1][0].times = 2
	}
	return []point{
		parked("inquiry_idle", "the worker dies while a call waits for a person", inquiring, killAndHeal),
		parked("inquiry_dead", "the reply comes while no worker is there", inquiring, speakToNobody),
		peopleDie("inquiry_asked", "a server has asked, and the journal does not know", "SuspendCall:before:1", once),
		peopleDie("inquiry_kept", "what goes on with the call is in the journal, and the workflow does not know",
			"SuspendCall:after:1", inquiring),
		peopleDie("inquiry_again", "a reply was handed over, and only the journal knows what the server has asked after that",
			"SuspendCall:after:2", twice),
		peopleDie("inquiry_decide", "a reply is accepted and not in the journal", "Decide:before:1", inquiring),
		peopleDie("inquiry_decided", "a reply is in the journal and the workflow does not know", "Decide:after:1", inquiring),
		peopleDie("inquiry_unclaimed", "a reply is to be handed over and the call is not claimed again", "ClaimCall:before:4",
			inquiring),
		peopleDie("inquiry_claimed", "the call is claimed again and the reply was not handed over", "ClaimCall:after:4",
			once),
		{
			name: "inquiry_effect", about: "the reply was handed over and has had its effect", interruptions: 1,
			shape: func(r *rig) {
				once(r)
				r.target.steps[1][0].block = "after"
			},
			act: func(ctx context.Context, r *rig) error {
				r.attend()
				if err := errors.Join(r.askTarget(ctx), r.noted(ctx, "effect", r.blocked().key)); err != nil {
					return err
				}
				r.first().kill()
				return errors.Join(r.release(), r.heal(ctx))
			},
		},
		parked("inquiry_20", "20 clients reply to one question, each something else", once, replyInCrowd),
		moved(),
	}
}

// moved makes a point at which a call continues with another worker and another process of its server.
func moved() point {
	p := parked("inquiry_moved", "worker and server are replaced while a call waits for a person", func(r *rig) {
		r.settings.stateless = true
		inquire(r, "mcp_remote_confirm")
	},
		func(ctx context.Context, r *rig) error {
			r.first().kill()
			r.remoteServer.signal(syscall.SIGKILL)
			<-r.remoteServer.done
			if _, err := r.startRemote(ctx, hostOf(r.settings.remote)); err != nil {
				return err
			}
			return r.heal(ctx)
		})
	p.prepare = (*rig).serveDirectly
	return p
}

// replyInCrowd has 20 clients respond at once. One response counts.
func replyInCrowd(ctx context.Context, r *rig) error {
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
