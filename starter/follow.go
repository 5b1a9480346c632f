package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/everturn/everturn/journal"
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

// lastChunks is how long the journal's last chunks are waited for once Temporal says that the turn is over.
const lastChunks = 2 * time.Second

// follower follows one turn.
type follower struct {
	*turnClient
	s       started
	o       followOptions
	view    *view
	people  people
	signals <-chan os.Signal
	chunks  <-chan heard   // closed at the turn's end; nil where there is no more to hear
	over    <-chan outcome // Temporal's word; nil where it is not asked
	seen    int64          // the index of the last chunk
	ended   bool           // turn_completed was seen
	verdict *outcome
	grace   <-chan time.Time // runs out when verdict has to do
	silence <-chan time.Time // runs out where nothing is heard of the turn; nil once something was
	readers sync.WaitGroup
}

// heard is a chunk of the turn, or what became of reading it.
type heard struct {
	chunk turn.Chunk
	still bool   // a message that has joined is not taken yet
	turn  string // the turn that took it
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
		if s.Joined {
			t.app.aside("a turn of the session is running, and the message joins it")
		}
	}
	defer f.readers.Wait() // the journal is closed after that
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.read(ctx)
	if t.client != nil {
		f.over = t.await(ctx, s)
	}
	timeout := f.deadline()
	f.silence = time.After(unheard)
	done, err := f.people.look(ctx)
	for !done {
		done, err = f.next(ctx, timeout)
	}
	if f.ended && f.over != nil {
		f.part()
	}
	return err
}

// partWithin is how long Temporal is given to close the run of a turn that is over.
const partWithin = time.Second

// part waits until Temporal has closed the run too. The answer is out by then; what follows finds the session at rest, and
// no request is broken off in the moment in which the server is busiest: one that was has left a development server's
// database refusing everything ("interrupted (9)").
func (f *follower) part() {
	select {
	case <-f.over:
	case <-time.After(partWithin):
	case <-f.signals:
	}
}

// next waits for one thing to happen and reports whether the command is done with the turn.
func (f *follower) next(ctx context.Context, timeout <-chan time.Time) (done bool, err error) {
	select {
	case h, more := <-f.chunks:
		return f.hear(ctx, h, more)
	case end := <-f.over:
		return f.judge(ctx, end)
	case <-f.silence:
		f.silence = nil
		if f.client != nil && !f.o.quiet {
			f.app.note("no worker has begun the turn yet: it is kept, and begins when one runs, for instance `starter dev`")
		}
		return false, nil
	case <-f.grace:
		return true, f.conclude(ctx, *f.verdict)
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
	case !more && f.ended:
		return true, f.conclude(ctx, f.fromJournal(ctx))
	case !more: // the reader was past the turn's last chunk
		return true, f.past(ctx)
	case h.err != nil && f.client == nil:
		return true, fmt.Errorf("reading the journal: %w", h.err)
	case h.err != nil:
		f.app.note("reading the journal: %v (the turn goes on)", h.err)
		f.chunks = nil
		return false, nil
	case h.still:
		return f.people.look(ctx)
	case h.turn != "":
		f.s.Turn, f.s.Joined = h.turn, false
		f.over = f.await(ctx, f.s)
		return false, nil
	}
	f.seen = h.chunk.Index
	f.ended = h.chunk.Kind == turn.ChunkTurnCompleted
	f.view.chunk(h.chunk)
	return f.people.heard(ctx, h.chunk)
}

// judge takes Temporal's word that the turn is over. The journal's is worth more, and the last chunks were written
// before: it is given a moment.
func (f *follower) judge(ctx context.Context, end outcome) (bool, error) {
	f.over = nil
	if f.s.Joined {
		if _, err := f.store.Delivered(ctx, f.s.Session, f.s.MessageID); err == nil {
			return false, nil
		}
		return true, f.conclude(ctx, end)
	}
	row, err := f.store.Turn(ctx, f.s.Turn)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		if f.rejoin(ctx, end) {
			return false, nil
		}
		return true, f.conclude(ctx, end)
	case errors.Is(end.err, errMovedOn), err == nil && row.State.Terminal() && f.chunks != nil:
		return false, nil // the journal tells it all
	}
	f.verdict, f.grace = &end, time.After(lastChunks)
	return false, nil
}

// rejoin goes over to the turn that really has the message, where the one that was begun for it has not.
func (f *follower) rejoin(ctx context.Context, end outcome) bool {
	other := end.result.Turn
	if f.s.MessageID != "" {
		row, err := f.store.Delivered(ctx, f.s.Session, f.s.MessageID)
		if err != nil {
			return false
		}
		other = row.ID
	}
	if other == "" || other == f.s.Turn {
		return false
	}
	if _, err := f.store.Turn(ctx, other); err != nil {
		return false
	}
	f.s.Turn, f.s.Joined = other, false
	f.read(ctx)
	f.over = f.await(ctx, f.s)
	return true
}

// fromJournal is the result of a turn whose end was read.
func (f *follower) fromJournal(ctx context.Context) outcome {
	r, err := f.recorded(ctx, f.s.Turn, f.view.reader.Text())
	return outcome{r, err}
}

// past ends a follower that was asked to begin behind the turn's last chunk.
func (f *follower) past(ctx context.Context) error {
	last := int64(-1)
	for {
		chunks, err := f.store.Chunks(ctx, f.s.Turn, last, 1000)
		if err != nil {
			return err
		}
		if len(chunks) == 0 {
			break
		}
		last = chunks[len(chunks)-1].Index
	}
	if f.o.after > last {
		return usage("turn %s ended with chunk %d and nothing follows %d: use --after %d or less, or leave it out", f.s.Turn, last, f.o.after, last)
	}
	f.ended = true // its last chunk was seen before
	return f.conclude(ctx, f.fromJournal(ctx))
}

// conclude ends with what the turn came to.
func (f *follower) conclude(ctx context.Context, end outcome) error {
	if errors.Is(end.err, errMovedOn) {
		return usage("nothing is known of turn %s: %w; `starter show %s` shows those that the journal has", f.s.Turn, end.err, quoted(f.s.Session))
	}
	if end.err != nil {
		return end.err
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
