package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// remotes returns the points at which the worker, or the way to the remote, fails while each commit is pushed, and those
// at which another machine takes the trees over.
func remotes() []point {
	return []point{
		pushed(diesInGit("canvas_pushing", "a commit is made and not pushed", pushingGit)),
		pushed(dies("canvas_pushed", "a commit is pushed and the journal does not know", "MoveTree:before", anyMove)),
		pushed(dies("canvas_recorded", "the journal knows a pushed commit and its call is not settled", "MoveTree:after",
			anyMove)),
		pushed(withGit(point{name: "canvas_remote_away", about: "the remote does not answer three times",
			act: func(ctx context.Context, r *harness) error { return r.ask(ctx) }}, awayGit)),
		movesOn(movedBy(dies("canvas_moved", "the machine dies with a commit that the journal does not know",
			"MoveTree:before",
			anyMove)), nil),
		movesOn(movedBy(dies("canvas_moved_recorded", "the machine dies with a commit whose call is not settled",
			"MoveTree:after", anyMove)), nil),
		movesOn(withGit(point{name: "canvas_moved_suspended", about: "the machine is suspended in a push, and comes back",
			interruptions: 1, act: suspended}, suspendedGit), comesBack),
	}
}

// movedBy lets the worker that follows the first one be that of another machine.
func movedBy(p point) point {
	p.act = func(ctx context.Context, r *harness) error {
		if err := r.ask(ctx); err != nil {
			return err
		}
		if err := r.died(ctx); err != nil {
			return err
		}
		return r.healElsewhere(ctx)
	}
	return p
}

// atRemote begins the names of the references of sessions at the remote.
const atRemote = "refs/everturn/sessions/"

// bare is the remote.
func (r *harness) bare() string { return inDir(r.dir, "remote.git") }

// pushingGit is a git that kills its worker instead of making the first push, and awayGit one that fails to reach the
// remote three times.
const (
	pushingGit = `#!/bin/sh
case " $* " in *" push "*)
	if mkdir "%s/killed" 2>/dev/null; then
		kill -9 $PPID $$
	fi
esac
exec %[2]s "$@"
`
	awayGit = `#!/bin/sh
case " $* " in *" push "*)
	for n in 1 2 3; do
		if mkdir "%s/away-$n" 2>/dev/null; then
			echo "fatal: unable to access the remote" >&2
			exit 128
		fi
	done
esac
exec %[2]s "$@"
`
	// suspendedGit suspends its worker, and waits for the file thawed, before the first push.
	suspendedGit = `#!/bin/sh
case " $* " in *" push "*)
	if mkdir "%[1]s/frozen" 2>/dev/null; then
		kill -STOP $PPID
		while [ ! -e "%[1]s/thawed" ]; do sleep 0.05; done
	fi
esac
exec %[2]s "$@"
`
)

// anyMove picks one of the times at which the journal learns of a commit. The first ones begin the trees.
func anyMove(r *harness) int { return 2 + anyStroke(r) }

// pushed is drawn with a remote, which must have each commit that the journal knows.
func pushed(p point) point {
	p = drawn(p)
	shape, prepare, then := p.shape, p.prepare, p.then
	p.shape = func(r *harness) {
		shape(r)
		r.settings.extra += fmt.Sprintf("remote = %q\n", r.bare())
	}
	p.prepare = func(r *harness, ctx context.Context) error {
		err := prepare(r, ctx)
		if err == nil {
			_, err = r.git(ctx, "clone", "-q", "--bare", ".", r.bare())
		}
		return err
	}
	p.then = func(ctx context.Context, r *harness) error {
		return errors.Join(then(ctx, r), r.reached(ctx, r.target.session), r.reached(ctx, r.companion.session))
	}
	return p
}

// movesOn is pushed; the workers that follow the first one are those of another machine. then is called when the target
// and its companion have been answered there.
func movesOn(p point, then func(ctx context.Context, r *harness) error) point {
	p.onlyPostgres = true // trees are kept beside a journal in SQLite, which has one place
	p = pushed(p)
	shape := p.shape
	p.shape = func(r *harness) {
		shape(r)
		r.settings.extra += "takeover_after = \"15s\"\n"
	}
	p.then = func(ctx context.Context, r *harness) error {
		if then != nil {
			if err := then(ctx, r); err != nil {
				return err
			}
		}
		var errs []error
		for _, t := range []*turnPlan{r.target, r.companion} {
			errs = append(errs, r.reached(ctx, t.session), r.committed(ctx, r.bare(), atRemote, t.session))
		}
		return errors.Join(errs...)
	}
	return p
}

// elsewhere lets the workers that begin from now on be those of another machine: with a clone and a state folder of
// their own.
func (r *harness) elsewhere(ctx context.Context) error {
	config := inDir(r.dir, "agent.toml")
	text, err := os.ReadFile(config)
	if err == nil {
		_, err = r.git(ctx, "clone", "-q", "--no-hardlinks", ".", inDir(r.dir, "second", "workspace"))
	}
	if err != nil {
		return err
	}
	var moved []string
	for _, name := range []string{"workspace", "journal.db"} {
		moved = append(moved, strconv.Quote(inDir(r.dir, name)), strconv.Quote(inDir(r.dir, "second", name)))
	}
	return os.WriteFile(config, []byte(strings.NewReplacer(moved...).Replace(string(text))), 0o600)
}

// healElsewhere starts a worker of another machine when the first one has died.
func (r *harness) healElsewhere(ctx context.Context) error {
	return errors.Join(r.elsewhere(ctx), r.heal(ctx))
}

// suspended suspends the first worker in the middle of a push, and starts one of another machine.
func suspended(ctx context.Context, r *harness) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	frozen := func() bool { _, err := os.Stat(inDir(r.dir, "frozen")); return err == nil }
	if err := reach(ctx, "a push", frozen); err != nil {
		return err
	}
	return r.healElsewhere(ctx)
}

// comesBack lets the suspended worker and its push go on, which are refused: it keeps its commit beside the session.
func comesBack(ctx context.Context, r *harness) error {
	if err := os.WriteFile(inDir(r.dir, "thawed"), nil, 0o600); err != nil {
		return err
	}
	r.thaw()
	store, err := r.canvases()
	if err != nil {
		return err
	}
	return reach(ctx, "a commit that is kept", func() bool {
		kept, err := r.git(ctx, "--git-dir="+store, "for-each-ref", "refs/everturn/aside/")
		return err == nil && kept != ""
	})
}

// reached checks that the remote has the commits of a session.
func (r *harness) reached(ctx context.Context, session string) error {
	tree, _, err := r.journal.Tree(ctx, "", session)
	if err != nil {
		return err
	}
	head, err := r.git(ctx, "--git-dir="+r.bare(), "rev-parse", "--verify", atRemote+session)
	if err == nil && strings.TrimSpace(head) != tree.Head {
		err = fmt.Errorf("the remote has commit %.10s of session %s, and the journal knows %.10s", head, session, tree.Head)
	}
	return err
}
