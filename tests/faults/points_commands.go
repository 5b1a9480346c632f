package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// The tools of commands.
const (
	command  = "local_shell"
	startJob = "local_job_start"
)

// commands returns the points at which the worker dies while a command or a job runs in the target's tree.
func commands() []point {
	return []point{
		commanded(killInCommand("command_runs", "a command has changed the tree and goes on", command,
			"echo begun > KEY; echo more > more; while :; do sleep 1; done", (*harness).changed)),
		commanded(killInCommand("command_streams", "a command's output is shown while it runs", command,
			"echo begun > KEY; while :; do echo shown; sleep 0.1; done", (*harness).streamed)),
		commanded(killInCommand("job_runs", "a job changes the tree while another command runs", startJob,
			"echo begun > KEY; while :; do date +%N > beat; sleep 0.1; done", (*harness).beaten)),
	}
}

// killInCommand makes a point at which the worker is killed when reached returns. The target's first call runs the
// script, in which KEY is the file that it makes, and its last one another command.
func killInCommand(name, about, tool, script string, reached func(*harness, context.Context) error) point {
	return point{name: name, about: about, interruptions: 1,
		shape: func(r *harness) {
			r.target.steps = nil
			r.target.add(1, func(int) string { return tool })
			first := &r.target.steps[0][0]
			first.script = strings.ReplaceAll(script, "KEY", first.key)
			if tool == startJob { // the job runs while the model's next call waits
				r.target.add(1, func(int) string { return once })
				r.target.steps[1][0].block = "before"
			}
			r.target.add(1, func(int) string { return command })
			last := &r.target.steps[len(r.target.steps)-1][0]
			last.script = "echo last > " + last.key
		},
		act: func(ctx context.Context, r *harness) error {
			if err := errors.Join(r.ask(ctx), reached(r, ctx)); err != nil {
				return err
			}
			r.first().kill()
			return errors.Join(r.release(), r.heal(ctx))
		}}
}

// commanded lets the workers run commands in trees.
func commanded(p point) point {
	shape := p.shape
	p = drawn(p) // which makes the repository
	p.shape = func(r *harness) {
		r.settings.extra += "[workspace]\nmode = \"tree\"\n[shell]\nenabled = true\n[policy.commands]\nallow = [\"*\"]\n"
		r.companion.steps = nil
		shape(r)
	}
	p.then = func(ctx context.Context, r *harness) error {
		return errors.Join(r.noneLeft(ctx), r.recovered(ctx))
	}
	return p
}

// inTree reports whether the target's tree has a file with some content.
func (r *harness) inTree(name string) bool {
	files, _ := filepath.Glob(inDir(r.dir, ".everturn/workspace/*/trees/*/"+name)) // the pattern is well-formed
	if len(files) != 1 {
		return false
	}
	b, err := os.ReadFile(files[0])
	return err == nil && len(b) > 0
}

// changed waits until the command has changed the tree.
func (r *harness) changed(ctx context.Context) error {
	return reach(ctx, "the command's second file", func() bool { return r.inTree("more") })
}

// streamed waits until the journal has a part of the command's output.
func (r *harness) streamed(ctx context.Context) error {
	return reach(ctx, "output in the journal", func() bool {
		events, err := r.journal.Events(ctx, r.turnID(ctx), -1, 10_000)
		return err == nil && slices.ContainsFunc(events, func(e turn.Event) bool {
			return e.Kind == turn.EventToolProgress && bytes.Contains(e.Data, []byte("shown"))
		})
	})
}

// beaten waits until the model's next call waits, and the job has changed the tree since.
func (r *harness) beaten(ctx context.Context) error {
	if err := r.noted(ctx, "begun", r.target.steps[1][0].key); err != nil {
		return err
	}
	return reach(ctx, "a change by the job", func() bool { return r.inTree("beat") })
}

// noneLeft waits until no process of the target's first command is left.
func (r *harness) noneLeft(ctx context.Context) error {
	mark := []byte(r.target.steps[0][0].key)
	var left []int
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := await(ctx, "the end of the command's processes", func() bool {
		left = nil
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
		for _, file := range files {
			line, _ := os.ReadFile(file) // the process may have ended
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err == nil && pid != os.Getpid() && bytes.Contains(line, mark) {
				left = append(left, pid)
			}
		}
		return len(left) == 0
	})
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		return fmt.Errorf("processes of the command outlive its worker: %v", left)
	}
	return nil
}

// recovered checks that what the first command changed is in commits of its call, and the change of the last one alone
// in that of its own; and that the journal says that the end of a killed command is unknown.
func (r *harness) recovered(ctx context.Context) error {
	stores, err := filepath.Glob(inDir(r.dir, ".everturn/workspace/*/store"))
	if err != nil || len(stores) != 1 {
		return fmt.Errorf("there are %d stores of canvases: %w", len(stores), err)
	}
	out, err := r.git(ctx, "--git-dir="+stores[0], "log", "--name-only",
		"--format=call %(trailers:key=Everturn-Call,valueonly,separator=)", "everturn/"+r.target.session)
	if err != nil {
		return err
	}
	by, of := map[string]string{}, "" // the call that made each file
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if call, ok := strings.CutPrefix(line, "call "); ok {
			of, _, _ = strings.Cut(call, "+")
		} else if line != "" {
			by[line] = of
		}
	}
	first, last := r.target.steps[0][0], r.target.steps[len(r.target.steps)-1][0]
	id := r.turnID(ctx)
	want := map[string]string{first.key: id + "/1.0", last.key: fmt.Sprintf("%s/%d.0", id, len(r.target.steps))}
	for _, name := range []string{"more", "beat"} {
		if strings.Contains(first.script, name) {
			want[name] = want[first.key]
		}
	}
	for name, call := range want {
		if by[name] != call {
			return fmt.Errorf("the commit with %s is of %q, not of %s", name, by[name], call)
		}
	}
	calls, err := r.journal.Calls(ctx, id)
	if err != nil {
		return err
	}
	if got := calls[0].Outcome; first.tool == command && got != turn.OutcomeUnknown {
		return fmt.Errorf("the killed command ended as %s", got)
	}
	return nil
}
