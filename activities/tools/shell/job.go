package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everturn/everturn/activities/tools/shell/proxy"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/sandbox"
)

// job is a command in the background.
type job struct {
	owner
	id, line string
	number   int
	record   string // the file of its record; "" if there is none
	recorded string // its content; used by watch only
	keep     bool
	limit    time.Duration
	began    time.Time
	out      *output
	hosts    *proxy.Proxy
	stop     context.CancelFunc
	done     chan struct{} // closed when all of its processes have ended, and what they changed is recorded
	end      string        // how it ended; valid when done is closed

	writing   sync.Mutex // held while in is written
	in        *os.File   // its standard input
	forgotten atomic.Bool
}

// watchEvery is how often a job is looked after, and collectWithin how long a job that has ended waits for the tree.
const (
	watchEvery    = time.Second
	collectWithin = 5 * time.Second
)

var errStops = errors.New("the worker stops")

// run starts a job in a place.
func (j *jobs) run(ctx context.Context, started *job, place sandbox.Place) error {
	input, in, err := os.Pipe()
	if err != nil {
		return err
	}
	started.in = in
	call := context.WithoutCancel(ctx)
	running := make(chan struct{}) // closed when started.stop is set
	ok := j.registry.Go(func(registryCtx context.Context) {
		ctx, stop := context.WithTimeout(registryCtx, started.limit)
		defer stop()
		started.stop = stop
		close(running)
		go j.watch(registryCtx, started)
		defer close(started.done)
		exit, err := j.o.Sandbox.Run(ctx, sandbox.Command{Line: started.line, Place: place, Output: started.out, Input: input,
			Serve: started.hosts.Serve})
		_, _ = input.Close(), in.Close() // the processes that used them have ended
		started.out.flush()
		started.end = started.ending(exit, err, registryCtx.Err() != nil) + j.collect(call)
	})
	if !ok {
		return errors.Join(errStops, input.Close(), in.Close())
	}
	<-running
	return nil
}

// collect makes what a job has changed a commit, and returns a note about that.
func (j *jobs) collect(call context.Context) string {
	ctx, cancel := context.WithTimeout(call, collectWithin)
	defer cancel()
	note, err := j.o.Places.JobEnded(ctx)
	if err != nil { // the next call that changes the tree makes the commit
		return ""
	}
	if note != "" {
		note = " " + note
	}
	return note
}

// ending describes how a job ended.
func (one *job) ending(exit sandbox.Exit, err error, workerStops bool) string {
	switch {
	case workerStops:
		return "ended with its worker"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("ended after %s", one.limit)
	case errors.Is(err, context.Canceled):
		return "stopped"
	case err != nil:
		return err.Error()
	case exit.Limit != "":
		return "ended: " + exit.Limit
	}
	return fmt.Sprintf("exit code %d", exit.Code)
}

// watch records what a job does, and stops and forgets it when its turn has ended, unless it is kept. It forgets a job
// that has ended by itself only after another time of its limit, so that its output can be read. It returns when the
// job is forgotten, or when ctx ends, as the worker does.
func (j *jobs) watch(ctx context.Context, watched *job) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	old := time.NewTimer(2 * watched.limit)
	defer old.Stop()
	for done := watched.done; !watched.forgotten.Load(); {
		select {
		case <-ctx.Done():
			<-watched.done
			watched.writeRecord(j.o.secrets)
			return
		case <-old.C:
			j.forget(watched)
		case <-done:
			watched.writeRecord(j.o.secrets)
			done = nil
		case <-tick.C:
			if done != nil {
				watched.writeRecord(j.o.secrets)
			}
			if !watched.keep && j.o.Ended != nil && j.o.Ended(ctx, watched.turn) {
				watched.stop()
				<-watched.done
				j.forget(watched)
			}
		}
	}
}

// ended reports whether a job has ended.
func (one *job) ended() bool {
	select {
	case <-one.done:
		return true
	default:
		return false
	}
}

// state says whether a job runs, or how it ended.
func (one *job) state() string {
	switch {
	case one.ended():
		return one.end
	case one.keep:
		return "running, kept"
	}
	return "running"
}

// report returns the state of a job and its output after some bytes.
func (one *job) report(after int64) string {
	state := one.state() // first: what an ended job wrote is complete
	text, from, next := one.out.part(after, maxJobShown)
	return fmt.Sprintf("[%s: %s; bytes %d to %d of %d]\n%s%s", one.id, state, from, next, one.out.written(),
		refusals(one.hosts), text)
}

// newMaskedOutput returns an output that keeps the text without secrets, because it is read in parts.
func newMaskedOutput(secrets *redact.Redactor) *output {
	done := make(chan struct{})
	close(done)
	return &output{stop: func() {}, done: done, stream: secrets.Stream(), masked: true}
}
