package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
)

// errDetached: the person has left the turn to itself.
var errDetached = &exitError{code: exitAnswered}

type followOptions struct {
	output     string
	quiet      bool
	outputLast string
	after      int64 // the last chunk that was seen; -1 for none
}

func checkOutput(output string) error {
	switch output {
	case "text", "json", "jsonl", "none":
		return nil
	}
	return usage("--output is %q: use text, json, jsonl or none", output)
}

// lastChunks is how long the journal's last chunks are waited for once Temporal says that the turn is over.
const lastChunks = 2 * time.Second

// stopAgain is how long a second signal is waited for after the first one has detached.
const stopAgain = 3 * time.Second

// follow shows a turn as it goes and returns how it ended. One signal detaches, a second one stops the turn.
func (t *turnClient) follow(ctx context.Context, s started, o followOptions) error {
	signals := t.app.interrupts.take()
	if o.output == "text" && !o.quiet {
		t.app.aside("%s", s.Link)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := t.awaitResult(ctx, s)
	view := newView(t.app, o)
	shown, stopReading := t.show(ctx, s, o.after, view)
	defer stopReading()
	select {
	case end := <-over:
		await(shown, stopReading)
		if end.err != nil {
			return end.err
		}
		return t.finish(ctx, s, end.result, view, o)
	case err := <-t.failed:
		stopReading()
		return fmt.Errorf("the worker of this command has ended and the turn waits for another one; follow it with `%s`: %w", t.attachHint(s), err)
	case <-signals:
		stopReading()
		view.pause()
		return t.leave(s, signals)
	}
}

// outcome is what waiting for a turn came to.
type outcome struct {
	result workflows.Result
	err    error
}

func (t *turnClient) awaitResult(ctx context.Context, s started) <-chan outcome {
	over := make(chan outcome, 1)
	go func() {
		r, err := t.result(ctx, s)
		over <- outcome{r, err}
	}()
	return over
}

// show reads the turn's chunks into the view. stop ends that and returns when the view is at rest.
func (t *turnClient) show(ctx context.Context, s started, after int64, view *view) (shown <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.read(ctx, s, after, view)
	}()
	return done, func() { cancel(); <-done }
}

// await gives the journal a moment to show the last chunks, which were written before Temporal closed the run.
func await(shown <-chan struct{}, stop func()) {
	timer := time.NewTimer(lastChunks)
	defer timer.Stop()
	select {
	case <-shown:
	case <-timer.C:
		stop()
	}
}

func (t *turnClient) read(ctx context.Context, s started, after int64, view *view) {
	for c, err := range journal.Follow(ctx, t.store, s.Turn, after) {
		if err != nil {
			if ctx.Err() == nil {
				t.app.note("reading the journal: %v (the turn goes on)", err)
			}
			return
		}
		view.chunk(c)
	}
}

// attachHint is the command that follows the turn again.
func (t *turnClient) attachHint(s started) string {
	if t.failed != nil { // its worker ends with this command
		return "starter attach --dev " + s.Session
	}
	return "starter attach " + s.Session
}

// leave detaches, and stops the turn where a second signal follows at once.
func (t *turnClient) leave(s started, signals <-chan os.Signal) error {
	t.app.note("\ndetached; a worker carries the turn on. Follow it with `%s`; press Ctrl-C again to stop it", t.attachHint(s))
	timer := time.NewTimer(stopAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
		return errDetached
	case <-signals:
	}
	r, err := t.stop(context.Background(), s)
	if err != nil {
		return err
	}
	t.app.note("stopped: %s", r.Message)
	return &exitError{code: turnExit(r)}
}

// finish prints what the turn came to.
func (t *turnClient) finish(ctx context.Context, s started, r workflows.Result, view *view, o followOptions) error {
	answer, err := t.answer(ctx, s, r)
	if err != nil {
		return err
	}
	switch o.output {
	case "json":
		r.Answer, r.Truncated = answer, false
		if err := writeJSON(t.app.out, r); err != nil {
			return err
		}
	case "text":
		view.end(answer, r)
	}
	if o.outputLast != "" { // last: an answer that was paid for is printed whatever becomes of the file
		if err := os.WriteFile(o.outputLast, []byte(answer), 0o600); err != nil {
			return usage("writing the answer to a file: %w", err)
		}
	}
	if code := turnExit(r); code != exitAnswered {
		return &exitError{code: code}
	}
	return nil
}

// answer is the whole answer: what was too long to travel is read from the journal.
func (t *turnClient) answer(ctx context.Context, s started, r workflows.Result) (string, error) {
	if !r.Truncated {
		return r.Answer, nil
	}
	steps, err := t.store.Inferences(ctx, s.Turn)
	if err != nil || len(steps) == 0 {
		return r.Answer, errors.Join(err)
	}
	return steps[len(steps)-1].Message.Text, nil
}
