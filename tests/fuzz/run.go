package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// grace is how long a run may take beyond its time: for its seeds, its TestMain, and the end of go's fuzzer.
	grace = 2 * time.Minute
	// perExecution is how long an execution may take if executions are counted.
	perExecution = time.Second
	// stopDelay is how long a process may take to stop when asked.
	stopDelay = 5 * time.Second
)

// binary is a package's test program.
type binary struct {
	file  string
	cache string // go's folder of corpora for the package
	err   error
}

// buildAll builds the test program of each package once, o.jobs at a time.
func (o order) buildAll(ctx context.Context, out io.Writer, bin string, targets []target) map[string]binary {
	built := map[string]binary{}
	var mu sync.Mutex
	var packages []target
	for _, t := range targets {
		if len(packages) == 0 || packages[len(packages)-1].pkg != t.pkg {
			packages = append(packages, t)
		}
	}
	spread(ctx, o.jobs, packages, func(t target) {
		began := time.Now()
		b := build(ctx, t, filepath.Join(bin, strings.ReplaceAll(t.short(), "/", "-")+".test"))
		mu.Lock()
		defer mu.Unlock()
		built[t.pkg] = b
		fmt.Fprintf(out, "compiled %-26s %5.1fs\n", t.short(), time.Since(began).Seconds())
	})
	return built
}

// build builds a package's test program with what go's fuzzer needs in it.
func build(ctx context.Context, t target, file string) binary {
	said, err := execute(ctx, t.root, "go", "env", "GOCACHE")
	if err != nil {
		return binary{err: fmt.Errorf("asking for go's cache: %w", err)}
	}
	b := binary{file: file, cache: filepath.Join(strings.TrimSpace(said), "fuzz", filepath.FromSlash(t.pkg))}
	if said, err := execute(ctx, t.root, "go", "test", "-c", "-fuzz", ".", "-o", file, t.pkg); err != nil {
		b.err = fmt.Errorf("compiling: %w\n%s", err, said)
	}
	return b
}

// runAll runs every target, o.jobs at a time. The outcomes have the targets' order.
func (o order) runAll(ctx context.Context, out io.Writer, binaries map[string]binary, targets []target) []outcome {
	places := map[target]int{}
	all := make([]outcome, len(targets))
	for i, t := range targets {
		places[t] = i
		all[i] = outcome{target: t, verdict: interrupted}
	}
	var mu sync.Mutex
	spread(ctx, o.jobs, targets, func(t target) {
		r := o.run(ctx, binaries[t.pkg], t)
		mu.Lock()
		defer mu.Unlock()
		all[places[t]] = r
		fmt.Fprintf(out, "%-8s %s.%s\n", r.verdict, t.short(), t.name)
	})
	return all
}

// run runs one target.
func (o order) run(ctx context.Context, b binary, t target) outcome {
	if b.err != nil {
		return outcome{target: t, verdict: broken, said: b.err.Error()}
	}
	bound := grace + o.span.d + time.Duration(o.span.count)*perExecution
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	said, err := execute(bounded, t.dir, b.file, "-test.run=^$", "-test.fuzz=^"+t.name+"$",
		"-test.fuzztime="+o.span.String(),
		"-test.fuzzminimizetime=1x", "-test.parallel=1", "-test.fuzzcachedir="+b.cache)
	r := judge(t, o.span, said, err == nil)
	switch {
	case ctx.Err() != nil:
		r.verdict = interrupted
	case bounded.Err() != nil:
		r.said = strings.TrimSpace(fmt.Sprintf("it did not end within %s\n%s", bound, r.said))
	case r.said == "" && err != nil:
		r.said = err.Error()
	}
	return r
}

// execute runs a program in its own process group and returns what it printed. No process of the group outlives it.
func execute(ctx context.Context, dir, program string, args ...string) (string, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	cmd.Env = append(os.Environ(), "PWD="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopDelay
	if err := cmd.Start(); err != nil {
		return "", err
	}
	err := cmd.Wait()
	if killed := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killed != nil && !errors.Is(killed, syscall.ESRCH) {
		err = errors.Join(err, fmt.Errorf("ending the group of process %s: %w", strconv.Itoa(cmd.Process.Pid), killed))
	}
	return said.String(), err
}

// spread calls f for each target, n at once, and returns when all calls have. Once ctx is done it starts no more calls.
func spread(ctx context.Context, n int, targets []target, f func(target)) {
	next := make(chan target)
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			for t := range next {
				f(t)
			}
		})
	}
	defer workers.Wait()
	defer close(next)
	for _, t := range targets {
		select {
		case next <- t:
		case <-ctx.Done():
			return
		}
	}
}
