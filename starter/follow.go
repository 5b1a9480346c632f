package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// errDetached: the person has left the turn to itself.
var errDetached = &exitError{code: exitAnswered}

type followOptions struct {
	output     string
	quiet      bool
	outputLast string
	after      int64 // the last chunk that was seen; -1 for none
}

// lastChunks is how long the journal's last chunks are waited for once Temporal says that the turn is over.
const lastChunks = 2 * time.Second

// follow shows a turn as it goes and returns how it ended. One signal detaches, a second one stops the turn.
func (t *turnClient) follow(ctx context.Context, s started, o followOptions) error {
	if o.output == "text" && !o.quiet {
		t.app.note("%s", s.Link)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		result workflows.Result
		err    error
	}
	over := make(chan outcome, 1)
	go func() {
		r, err := t.result(ctx, s)
		over <- outcome{r, err}
	}()
	view := newView(t.app, o)
	shown := make(chan struct{})
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	go func() {
		defer close(shown)
		t.read(reading, s, o, view)
	}()
	select {
	case end := <-over:
		t.await(shown, stopReading)
		if end.err != nil {
			return end.err
		}
		return t.finish(ctx, s, end.result, view, o)
	case <-t.app.signals:
		stopReading()
		<-shown
		return t.leave(s, view)
	}
}

// await gives the journal a moment to show the last chunks, which were written before Temporal closed the run.
func (t *turnClient) await(shown <-chan struct{}, stop func()) {
	timer := time.NewTimer(lastChunks)
	defer timer.Stop()
	select {
	case <-shown:
	case <-timer.C:
		stop()
		<-shown
	}
}

func (t *turnClient) read(ctx context.Context, s started, o followOptions, view *view) {
	for c, err := range journal.Follow(ctx, t.store, s.Turn, o.after) {
		if err != nil {
			if ctx.Err() == nil {
				t.app.note("reading the journal: %v (the turn goes on)", err)
			}
			return
		}
		view.chunk(c)
	}
}

// leave detaches, and stops the turn where a second signal follows at once.
func (t *turnClient) leave(s started, view *view) error {
	view.pause()
	t.app.note("\ndetached; the turn goes on as long as a worker runs. Follow it with `starter attach %s`; press Ctrl-C again to stop it", s.Session)
	timer := time.NewTimer(3 * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return errDetached
	case <-t.app.signals:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := t.client.CancelWorkflow(ctx, s.Session, s.Turn); err != nil {
		return fmt.Errorf("stopping the turn: %w", err)
	}
	r, err := t.result(ctx, s)
	if err != nil {
		return err
	}
	t.app.note("stopped: %s", r.Message)
	return &exitError{code: exitCancelled}
}

// finish prints what the turn came to.
func (t *turnClient) finish(ctx context.Context, s started, r workflows.Result, view *view, o followOptions) error {
	answer, err := t.answer(ctx, s, r)
	if err != nil {
		return err
	}
	if o.outputLast != "" {
		if err := os.WriteFile(o.outputLast, []byte(answer), 0o600); err != nil {
			return usage("writing the answer: %w", err)
		}
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

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding JSON: %w", err)
	}
	_, err = fmt.Fprintln(w, string(b))
	return err
}

// event is a chunk as -o jsonl prints it.
type event struct {
	Version int `json:"v"`
	turn.Chunk
}
