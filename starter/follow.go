package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/chat"
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
	// stay goes on where a person is waited for and cannot be asked here; otherwise the command ends with exitWaiting.
	stay bool
	// noWait asks nobody, on a terminal neither.
	noWait bool
	// timeout is how long the turn is followed; 0 has no end.
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
	over    <-chan outcome   // the result; nil until it is waited for
	untaken <-chan struct{}  // the journal has changed, while the message that was sent is not taken yet
	seen    int64            // the index of the last chunk
	ended   bool             // turn_completed was seen
	silence <-chan time.Time // runs out if nothing is heard of the turn; nil once something was
	readers sync.WaitGroup
}

// heard is a chunk of the turn, or what became of reading it.
type heard struct {
	chunk turn.Chunk
	err   error
}

// outcome is what waiting for a turn came to.
type outcome struct {
	result workflows.Result
	err    error
}

// follow shows a turn as it goes and returns how it ended. A signal detaches, and Ctrl-C pressed again stops the turn.
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
	defer f.readers.Wait() // the journal is closed after that
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.read(ctx)
	timeout := f.deadline()
	if s.Merged { // meanwhile the running turn may need a decision
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

// read begins to hear the turn's chunks. It ends with ctx.
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

// part waits until the reader is done, which it is when Temporal has closed the run too. The answer is out by then.
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

// next waits for one thing to happen and reports whether the command is done with the turn.
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

// deadline is when the person's patience ends; nil where it never does.
func (f *follower) deadline() <-chan time.Time {
	if f.o.timeout <= 0 {
		return nil
	}
	return time.After(f.o.timeout)
}

// unheard is how long a turn may be silent before a person is told why. A worker begins a turn within moments.
const unheard = 5 * time.Second

// hear takes what the journal says.
func (f *follower) hear(ctx context.Context, h heard, more bool) (bool, error) {
	f.silence = nil
	switch {
	case !more: // over without a turn_completed, or the reader began behind it
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

// unread goes on without the journal, if Temporal can tell how the turn ends.
func (f *follower) unread(ctx context.Context, err error) (bool, error) {
	if !f.online {
		return true, fmt.Errorf("reading the journal: %w", err)
	}
	f.app.note("reading the journal: %v (the turn goes on)", err)
	f.chunks = nil
	f.wait(ctx)
	return false, nil
}

// past refuses a chunk to begin after that the turn does not have.
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
		last, f.ended = end.Index, end.Kind == turn.ChunkTurnCompleted // which was seen before
	}
	if f.ended && f.o.after > last {
		return usage("turn %s ended with chunk %d and nothing follows %d: use --after %d or less, or leave it out", f.s.ID, last, f.o.after, last)
	}
	return nil
}

// conclude ends with what the turn came to.
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

// finish prints what the turn came to.
func (t *turnClient) finish(r workflows.Result, view *view, o followOptions) error {
	switch o.output {
	case "json":
		if err := writeJSON(t.app.out, r); err != nil {
			return err
		}
	case "text":
		view.end(r.Answer, r)
	}
	if o.outputLast != "" { // last: an answer that was paid for is printed whatever becomes of the file
		if err := os.WriteFile(o.outputLast, []byte(r.Answer), 0o600); err != nil {
			return usage("writing the answer to a file: %w", err)
		}
	}
	if code := turnExit(r); code != exitAnswered {
		return &exitError{code: code}
	}
	return nil
}
