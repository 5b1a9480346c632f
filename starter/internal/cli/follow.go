package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/ui/chat"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// errDetached reports that the user detached from the turn, which goes on.
var errDetached = &exitError{code: exitAnswered}

type followOptions struct {
	output     string
	quiet      bool
	outputLast string
	after      int64 // the index of the last chunk seen before; -1 for none
	// stay keeps following when the turn waits for a user who cannot be asked here; otherwise the command ends with
	// exitWaiting.
	stay bool
	// noWait never asks the user, not even on a terminal.
	noWait bool
	// timeout bounds how long the command follows the turn; 0 means no bound.
	timeout time.Duration
}

func checkOutput(output string) error {
	switch output {
	case "text", "json", "jsonl", "none":
		return nil
	}
	return usage("--output is %q: use text, json, jsonl or none", output)
}

// follower follows one turn.
type follower struct {
	*turnClient
	s       started
	o       followOptions
	view    *view
	people  people
	signals <-chan os.Signal
	chunks  <-chan heard     // closed when the turn is over; nil if the journal cannot be read
	over    <-chan outcome   // the result; nil until wait is called
	untaken <-chan struct{}  // the journal has changed, while the turn has not taken the sent message yet
	seen    int64            // the index of the last chunk
	ended   bool             // the follower has seen turn_completed
	silence <-chan time.Time // fires if the turn has no chunk within unheard; nil after the first chunk
	readers sync.WaitGroup
}

// heard is a chunk of the turn, or the error of reading it.
type heard struct {
	chunk turn.Chunk
	err   error
}

// outcome is the result of a turn, or the error of waiting for it.
type outcome struct {
	result workflows.Result
	err    error
}

// follow shows a turn's chunks until the turn ends, and returns how it ended. A signal detaches, and a second Ctrl-C
// stops the turn.
func (t *turnClient) follow(ctx context.Context, s started, o followOptions) error {
	f := &follower{turnClient: t, s: s, o: o, view: newView(t.app, o), seen: o.after, signals: t.app.interrupts.take()}
	f.people = newPeople(f)
	f.view.media = func(c turn.Chunk) []turn.Media { return chat.MediaOf(ctx, t.store, c) }
	if o.output == "text" && !o.quiet {
		t.app.aside("%s", s.Link)
		if s.Merged {
			t.app.aside("a turn of the session is running, and the message joins it")
		}
	}
	defer f.readers.Wait() // the caller closes the journal after that
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.read(ctx)
	timeout := f.deadline()
	if s.Merged { // the running turn may need a decision before it takes the message
		f.untaken = t.store.Changed(ctx)
	} else {
		f.silence = time.After(unheard)
	}
	done, err := f.people.look(ctx)
	for !done {
		done, err = f.next(ctx, timeout)
	}
	if f.ended && f.chunks != nil {
		f.part()
	}
	return err
}

// read starts reading the turn's chunks in the background, until ctx ends.
func (f *follower) read(ctx context.Context) {
	s, after, chunks := f.s, f.o.after, make(chan heard)
	f.chunks = chunks
	tell := func(h heard) bool {
		select {
		case chunks <- h:
			return true
		case <-ctx.Done():
			return false
		}
	}
	f.readers.Go(func() {
		defer close(chunks)
		for c, err := range f.client.Follow(ctx, s.Turn, after) {
			if !tell(heard{c, err}) {
				return
			}
		}
	})
}

// part waits until the reader ends, which is when Temporal has also closed the run. The answer is printed before that.
func (f *follower) part() {
	for {
		select {
		case _, more := <-f.chunks:
			if !more {
				return
			}
		case <-f.signals:
			return
		}
	}
}

// wait waits for the result in the background.
func (f *follower) wait(ctx context.Context) {
	s, over := f.s, make(chan outcome, 1)
	f.over = over
	f.readers.Go(func() {
		r, err := f.client.Wait(ctx, s.Turn)
		over <- outcome{r, err}
	})
}

// next waits for one event and reports whether the command is done with the turn.
func (f *follower) next(ctx context.Context, timeout <-chan time.Time) (done bool, err error) {
	select {
	case h, more := <-f.chunks:
		return f.hear(ctx, h, more)
	case end := <-f.over:
		return true, f.conclude(ctx, end)
	case <-f.untaken:
		f.untaken = f.store.Changed(ctx)
		return f.people.look(ctx)
	case <-f.silence:
		f.silence = nil
		if f.online && !f.o.quiet {
			f.app.note("no worker has begun the turn yet: it is kept, and begins when one runs, for instance `starter dev`")
		}
		return false, nil
	case said := <-f.people.lines():
		return f.people.typed(ctx, said)
	case err := <-f.people.answered():
		return f.people.acknowledged(ctx, err)
	case err := <-f.failed:
		return true, fmt.Errorf("the worker of this command has ended and the turn waits for another one; follow it with `%s`: %w", f.attachHint(f.s), err)
	case first := <-f.signals:
		f.view.pause()
		return true, f.leave(f.s, first, f.signals)
	case <-timeout:
		f.view.pause()
		f.app.note("no answer within %s; the turn goes on. Follow it with `%s`", f.o.timeout, f.attachHint(f.s))
		return true, &exitError{code: exitTimeout}
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// deadline returns a channel that fires after --timeout, or nil if there is none.
func (f *follower) deadline() <-chan time.Time {
	if f.o.timeout <= 0 {
		return nil
	}
	return time.After(f.o.timeout)
}

// unheard is how long a turn may go without a chunk before the command tells the user why. A worker begins a turn
// within moments.
const unheard = 5 * time.Second

// hear handles a chunk that the journal returns, or the end of the chunks.
func (f *follower) hear(ctx context.Context, h heard, more bool) (bool, error) {
	f.silence = nil
	switch {
	case !more: // the turn ended without turn_completed, or the reader began after it
		f.chunks = nil
		f.wait(ctx)
		return false, nil
	case h.err != nil:
		return f.unread(ctx, h.err)
	}
	f.s.ID, f.s.Merged, f.untaken = h.chunk.Turn, false, nil
	f.seen = h.chunk.Index
	f.ended = h.chunk.Kind == turn.ChunkTurnCompleted
	f.view.chunk(h.chunk)
	if f.ended {
		r, err := f.client.Result(ctx, f.s.Turn)
		return true, f.conclude(ctx, outcome{r, err})
	}
	return f.people.heard(ctx, h.chunk)
}

// unread continues without the journal if Temporal can tell how the turn ends.
func (f *follower) unread(ctx context.Context, err error) (bool, error) {
	if !f.online {
		return true, fmt.Errorf("reading the journal: %w", err)
	}
	f.app.note("reading the journal: %v (the turn goes on)", err)
	f.chunks = nil
	f.wait(ctx)
	return false, nil
}

// past returns an error if --after names a chunk beyond the end of the turn.
func (f *follower) past(ctx context.Context) error {
	last := int64(-1)
	for {
		chunks, err := f.store.Chunks(ctx, f.s.ID, last, 1000)
		if err != nil {
			return err
		}
		if len(chunks) == 0 {
			break
		}
		end := chunks[len(chunks)-1]
		last, f.ended = end.Index, end.Kind == turn.ChunkTurnCompleted // turn_completed is before o.after
	}
	if f.ended && f.o.after > last {
		return usage("turn %s ended with chunk %d and nothing follows %d: use --after %d or less, or leave it out", f.s.ID, last, f.o.after, last)
	}
	return nil
}

// conclude ends the command with the turn's result, or with the error of waiting for it.
func (f *follower) conclude(ctx context.Context, end outcome) error {
	switch {
	case errors.Is(end.err, client.ErrUndelivered):
		id := f.s.MessageID
		return &exitError{code: exitFailed, cause: fmt.Errorf("the turn was ended from outside before it took message %s: send it again with `--message-id %s`, and it is answered once", id, id)}
	case errors.Is(end.err, client.ErrNotFound):
		return usage("nothing is known of turn %s: %w; `starter show %s` shows those that the journal has", f.s.ID, end.err, quoted(f.s.Session))
	case end.err != nil:
		return end.err
	}
	if !f.ended && f.o.after >= 0 {
		if err := f.past(ctx); err != nil {
			return err
		}
	}
	if f.o.output == "jsonl" && !f.ended {
		if err := f.view.closing(end.result, f.seen+1); err != nil {
			return err
		}
	}
	return f.finish(end.result, f.view, f.o)
}

// finish prints the turn's result.
func (t *turnClient) finish(r workflows.Result, view *view, o followOptions) error {
	switch o.output {
	case "json":
		if err := writeJSON(t.app.out, r); err != nil {
			return err
		}
	case "text":
		view.end(r.Answer, r)
	}
	if o.outputLast != "" { // after printing: an error of the file must not lose an answer that was paid for
		if err := os.WriteFile(o.outputLast, []byte(r.Answer), 0o600); err != nil {
			return usage("writing the answer to a file: %w", err)
		}
	}
	if code := turnExit(r); code != exitAnswered {
		return &exitError{code: code}
	}
	return nil
}
