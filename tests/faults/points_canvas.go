package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// canvases returns the points at which the worker, or git, dies while two sessions change their canvases in one
// repository.
func canvases() []point {
	return []point{
		drawn(dies("canvas_claimed", "a change is claimed and git has not run", "ClaimCall:after", firstOf)),
		drawn(dies("canvas_made", "a commit is made and its call is not settled", "SettleCall:before", anyStroke)),
		drawn(dies("canvas_settled", "the call of a commit is settled and not reported", "SettleCall:after", anyStroke)),
		drawn(withGit(point{name: "canvas_git", about: "git is killed three times in the middle of a commit",
			act: func(ctx context.Context, r *harness) error { return r.ask(ctx) }}, dyingGit)),
		drawn(diesInGit("canvas_changed", "the tree has a change and no commit has it", changedGit)),
		drawn(diesInGit("canvas_committed", "a commit is made and the worker does not know", committedGit)),
		setUp(diesInGit("canvas_set_up", "the setup of a new tree has ended and no commit has what it changed", changedGit)),
		setUp(diesInGit("canvas_set_up_committed", "the setup of a new tree is a commit and the worker does not know",
			committedGit)),
	}
}

// setUp is drawn with a setup of new trees, whose result each canvas must have once.
func setUp(p point) point {
	p = drawn(p)
	shape, then := p.shape, p.then
	p.shape = func(r *harness) {
		shape(r)
		r.settings.extra += "setup = \"echo once >> prepared\"\n"
	}
	p.then = func(ctx context.Context, r *harness) error {
		err := then(ctx, r)
		for _, t := range []*turnPlan{r.target, r.companion} {
			store, serr := r.canvases()
			if serr != nil {
				return errors.Join(err, serr)
			}
			prepared, serr := r.git(ctx, "--git-dir="+store, "show", "everturn/"+t.session+":prepared")
			if err = errors.Join(err, serr); prepared != "once\n" {
				err = errors.Join(err, fmt.Errorf("session %s was prepared with %q", t.session, prepared))
			}
		}
		return err
	}
	return p
}

// withGit gives the workers of a point this script as git. Its arguments are the folder of the harness and the real
// git.
func withGit(p point, script string) point {
	p.prepare = func(r *harness, _ context.Context) error {
		real, err := exec.LookPath("git")
		if err != nil {
			return err
		}
		r.settings.path = inDir(r.dir, "bin")
		return errors.Join(os.Mkdir(r.settings.path, 0o700),
			os.WriteFile(inDir(r.settings.path, "git"), fmt.Appendf(nil, script, r.dir, real), 0o700))
	}
	return p
}

// diesInGit makes a point at which git kills the worker.
func diesInGit(name, about, script string) point {
	return withGit(point{name: name, about: about, interruptions: 1,
		act: func(ctx context.Context, r *harness) error {
			if err := r.ask(ctx); err != nil {
				return err
			}
			if err := reach(ctx, "the death of the worker", r.first().gone); err != nil {
				return err
			}
			return r.heal(ctx)
		}}, script)
}

// dyingGit is a git that is killed soon after it has begun to commit, three times.
const dyingGit = `#!/bin/sh
case " $* " in *" fast-import "*)
	for n in 1 2 3; do
		if mkdir "%s/killed-$n" 2>/dev/null; then
			%[2]s "$@" <&0 &
			sleep 0.00$n
			kill -9 $! 2>/dev/null
			kill -9 $$
		fi
	done
esac
exec %[2]s "$@"
`

// changedGit is a git that kills its worker instead of making the first commit, and committedGit one that kills it
// afterwards.
const (
	changedGit = `#!/bin/sh
case " $* " in *" fast-import "*)
	if mkdir "%s/killed" 2>/dev/null; then
		kill -9 $PPID $$
	fi
esac
exec %[2]s "$@"
`
	committedGit = `#!/bin/sh
case " $* " in *" fast-import "*)
	if mkdir "%s/killed" 2>/dev/null; then
		%[2]s "$@"
		kill -9 $PPID $$
	fi
esac
exec %[2]s "$@"
`
)

// stroke is the tool that changes a canvas.
const stroke = "local_write_file"

// anyStroke picks one of the changes of the target and its companion.
func anyStroke(r *harness) int { return 1 + r.rng.IntN(r.target.calls()+r.companion.calls()) }

// drawn lets the target and its companion change their canvases.
func drawn(p point) point {
	p.shape = func(r *harness) {
		r.settings.extra += "[workspace]\nmode = \"tree\"\n"
		for _, t := range []*turnPlan{r.target, r.companion} {
			t.steps = nil
			for range 2 + r.rng.IntN(2) {
				t.add(1+r.rng.IntN(3), func(int) string { return stroke })
			}
		}
	}
	prepare := p.prepare
	p.prepare = func(r *harness, ctx context.Context) error {
		var err error
		for _, args := range [][]string{{"init", "-q"}, {"commit", "-q", "--allow-empty", "-m", "begin"}} {
			if err == nil {
				_, err = r.git(ctx, args...)
			}
		}
		if prepare != nil {
			err = errors.Join(err, prepare(r, ctx))
		}
		return err
	}
	p.then = func(ctx context.Context, r *harness) error {
		store, err := r.canvases()
		if err != nil {
			return err
		}
		return errors.Join(r.committed(ctx, store, "everturn/", r.target.session),
			r.committed(ctx, store, "everturn/", r.companion.session))
	}
	return p
}

func (r *harness) repo() string { return inDir(r.dir, "workspace") }

func (r *harness) git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.repo(), "-c", "user.name=a", "-c",
		"user.email=a@b"}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return string(out), err
}

// canvases returns the repository of the canvases.
func (r *harness) canvases() (string, error) {
	stores, err := filepath.Glob(inDir(r.dir, ".everturn/workspace/*/store"))
	if err != nil || len(stores) != 1 {
		return "", fmt.Errorf("there are %d stores of canvases: %w", len(stores), err)
	}
	return stores[0], nil
}

// committed checks that each change of a session's canvas is one commit in a repository, and that there is no other. The
// name of the session's reference there begins with prefix.
func (r *harness) committed(ctx context.Context, repository, prefix, session string) error {
	out, err := r.git(ctx, "--git-dir="+repository, "log", "--format=%(trailers:key=Everturn-Call,valueonly)",
		prefix+session)
	if err != nil {
		return err
	}
	commits := map[string]int{}
	for _, call := range strings.Fields(out) {
		if !strings.HasSuffix(call, "/") { // that of a setup names no call
			commits[call]++
		}
	}
	turns, err := r.journal.Turns(ctx, session)
	if err != nil {
		return err
	}
	for _, t := range turns {
		calls, err := r.journal.Calls(ctx, t.ID)
		if err != nil {
			return err
		}
		for _, c := range calls {
			id := t.ID + "/" + c.Call.ID
			if n := commits[id]; c.Call.Tool == "local/write_file" && (n > 1 || n == 0 && c.Outcome == turn.OutcomeOK ||
				n == 1 && c.Outcome != turn.OutcomeOK) {
				return fmt.Errorf("call %s ended as %s and has %d commits", id, c.Outcome, n)
			}
			delete(commits, id)
		}
	}
	if len(commits) > 0 {
		return fmt.Errorf("session %s has commits of no call: %v", session, commits)
	}
	return nil
}
