package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// awayFor is how long the server of a point stays away.
const awayFor = 1500 * time.Millisecond

// aways returns the points at which a server is killed between two calls and comes back a moment later: the call that
// is made meanwhile must be carried out.
func aways() []point {
	remote := toolServer{"remote", "", nil, "", true}
	return []point{
		away("away_stdio", "an MCP server over stdio is killed between two calls and stays away for 1.5 s", local[0]),
		away("away_http", "an MCP server over HTTP is killed between two calls and stays away for 1.5 s", remote),
		awayThenKilled(),
	}
}

// awayThenKilled makes a point at which a server refuses the first attempt of a repeatable call, and the worker dies in
// the second one. The call is attempted again.
func awayThenKilled() point {
	s := local[1]
	p := away("away_killed", "an MCP server refuses a repeatable call, and the worker dies when it is sent again", s)
	shape := p.shape
	p.interruptions = 1
	p.shape = func(r *harness) {
		shape(r)
		r.blocked().block = "before"
	}
	p.act = func(ctx context.Context, r *harness) error {
		err := errors.Join(r.askTarget(ctx), r.atGate(ctx), r.withdraw(s), r.openGate(),
			reach(ctx, "an attempt that was refused", func() bool { return r.refused(ctx) }),
			r.readmit(ctx, s), r.noted(ctx, "begun", r.blocked().key))
		if err != nil {
			return err
		}
		r.first().kill()
		return errors.Join(r.release(), r.heal(ctx), r.settle())
	}
	p.then = func(ctx context.Context, r *harness) error {
		return r.became(ctx, r.blocked().key, verdict{turn.OutcomeOK, 1, 2})
	}
	return p
}

// refused reports whether the target's stream shows an attempt of a call that was not sent.
func (r *harness) refused(ctx context.Context) bool {
	events, err := r.journal.Events(ctx, r.turnID(ctx), -1, 1000)
	return err == nil && slices.ContainsFunc(events, func(e turn.Event) bool {
		var failed turn.ErrorEvent
		return e.Kind == turn.EventError && json.Unmarshal(e.Data, &failed) == nil && failed.Code == turn.CodeToolNotSent
	})
}

func away(name, about string, s toolServer) point {
	return point{
		name: name, about: about,
		shape: func(r *harness) {
			for range 2 {
				r.target.add(1, func(int) string { return s.wire("append") })
			}
			r.adapt = func(q fakellm.Request, t *turnPlan, reply fakellm.Reply) fakellm.Reply {
				if t.id == r.target.id && q.Step == 1 && q.Attempt == 1 {
					return reply.Hold(0, r.gate)
				}
				return reply
			}
		},
		prepare: func(r *harness, ctx context.Context) error {
			if !s.http {
				return nil
			}
			return r.serveDirectly(ctx)
		},
		act: func(ctx context.Context, r *harness) error {
			if err := errors.Join(r.askTarget(ctx), r.atGate(ctx), r.withdraw(s)); err != nil {
				return err
			}
			return errors.Join(r.openGate(), pause(ctx, awayFor), r.readmit(ctx, s), r.settle())
		},
		then: func(ctx context.Context, r *harness) error {
			return r.became(ctx, r.target.steps[1][0].key, verdict{turn.OutcomeOK, 1, 1})
		},
	}
}

// withdraw kills the processes of servers. Until readmit, a new process exits at once, and the port refuses
// connections.
func (r *harness) withdraw(servers ...toolServer) error {
	for _, s := range servers {
		if s.http {
			r.remoteServer.kill()
			continue
		}
		if err := os.WriteFile(r.modeFile(s.id), []byte("exit"), 0o600); err != nil {
			return err
		}
		for pid, command := range mentioning(r.pidfile(s.id)) {
			if strings.HasPrefix(command, r.programs.mcpserver) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
			}
		}
	}
	return nil
}

// readmit lets withdrawn servers start again. Those over HTTP share one process.
func (r *harness) readmit(ctx context.Context, servers ...toolServer) error {
	var errs []error
	for _, s := range servers {
		switch {
		case !s.http:
			errs = append(errs, os.Remove(r.modeFile(s.id)))
		case r.remoteServer.gone():
			_, err := r.startRemote(ctx, hostOf(r.settings.remote))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
