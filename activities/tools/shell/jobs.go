package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/sandbox"
	"github.com/everturn/everturn/workflows/turn"
)

// The limits of commands in the background.
const (
	maxJobs     = 16          // of a turn
	jobTimeout  = time.Hour   // of one job
	maxJobWait  = 60          // seconds of one read
	checkTurn   = time.Second // how often a job looks whether its turn has ended
	maxJobShown = 32 << 10    // bytes of output that one read returns
)

// jobs are the commands that run in the background on this worker. A job belongs to the turn that has started it, and
// ends with it.
type jobs struct {
	o        Options
	registry *tools.Registry

	mu   sync.Mutex // guards the fields below
	all  []*job
	last int // the number of the last job
}

// job is a command in the background.
type job struct {
	id, turn, line string
	began          time.Time
	out            *output
	stop           context.CancelFunc
	done           chan struct{} // closed when all of its processes have ended
	end            string        // how it ended; valid when done is closed
}

type jobInput struct {
	Command string `json:"command" jsonschema:"the command line, as for sh -c"`
}

type jobReadInput struct {
	ID    string `json:"id,omitempty" jsonschema:"the job; without it, the jobs of this turn are listed"`
	After int64  `json:"after,omitempty" jsonschema:"the first byte of the output to read; 0 by default"`
	Wait  int    `json:"wait,omitempty" jsonschema:"seconds to wait for more output or for the job's end, at most 60"`
}

type jobStopInput struct {
	ID string `json:"id" jsonschema:"the job"`
}

// registerJobs adds the tools for commands in the background. Their state is on one worker, so all of a turn's calls go
// to it.
func registerJobs(r *tools.Registry, o Options, rule turn.CommandRule) error {
	j := &jobs{o: o, registry: r}
	return errors.Join(
		tools.Add(r, "job_start", fmt.Sprintf("Start a command line that takes long in the background, in %s. Another "+
			"command cannot reach a server that it starts. Isolation: %s. It ends with the turn, and after %s at the latest. The result is the job's ID, for job_read and job_stop.", o.Where,
			o.Sandbox, jobTimeout), j.start, tools.Risk(turn.RiskHigh), tools.Commands(rule), tools.SessionAffinity()),
		tools.Add(r, "job_read", "Read the output of a background job and whether it runs, or list the jobs of this turn.",
			j.read, tools.Risk(turn.RiskLow), tools.ReadOnly(), tools.SessionAffinity(), tools.Timeout(maxJobWait*time.Second+grace)),
		tools.Add(r, "job_stop", "End a background job with all of its processes, and read the rest of its output.", j.end,
			tools.Risk(turn.RiskLow), tools.SessionAffinity()))
}

// start implements job_start.
func (j *jobs) start(ctx context.Context, in jobInput) (string, error) {
	return j.o.In(ctx, title(in.Command), func(p sandbox.Place) (string, error) { return j.startIn(ctx, in.Command, p) })
}

// startIn starts a job in a place and returns its ID.
func (j *jobs) startIn(ctx context.Context, line string, place sandbox.Place) (string, error) {
	req, _ := tools.CallInfo(ctx)
	started := &job{turn: req.Turn, line: line, began: time.Now(), done: make(chan struct{}),
		out: newMaskedOutput(j.o.secrets)}
	running := make(chan struct{}) // closed when started.stop is set
	ok := j.registry.Go(func(registryCtx context.Context) {
		// What a job wrote can be read until its turn ends, so the turn is watched for as long as a job may run.
		watch, unwatch := context.WithTimeout(registryCtx, jobTimeout)
		ctx, stop := context.WithCancel(watch)
		defer stop()
		started.stop = stop
		close(running)
		go func() {
			defer unwatch()
			j.watchTurn(watch, started)
		}()
		defer close(started.done)
		exit, err := j.o.Sandbox.Run(ctx, sandbox.Command{Line: line, Place: place, Output: started.out})
		started.out.flush()
		started.end = jobEnd(exit, err)
	})
	if !ok {
		return "", errors.New("the worker stops")
	}
	<-running
	if err := j.add(started); err != nil {
		started.stop()
		return "", err
	}
	return fmt.Sprintf("%s started", started.id), nil
}

// jobEnd describes how a job ended.
func jobEnd(exit sandbox.Exit, err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("ended after %s", jobTimeout)
	case errors.Is(err, context.Canceled):
		return "stopped"
	case err != nil:
		return err.Error()
	case exit.Limit != "":
		return "ended: " + exit.Limit
	}
	return fmt.Sprintf("exit code %d", exit.Code)
}

// add adds a job and gives it its ID.
func (j *jobs) add(added *job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.of(added.turn)) >= maxJobs {
		return fmt.Errorf("this turn has %d jobs, the maximum; the command was stopped at once", maxJobs)
	}
	j.last++
	added.id = fmt.Sprintf("job-%d", j.last)
	j.all = append(j.all, added)
	return nil
}

// of returns the jobs of a turn. The caller holds the lock.
func (j *jobs) of(turnID string) (out []*job) {
	for _, one := range j.all {
		if one.turn == turnID {
			out = append(out, one)
		}
	}
	return out
}

// watchTurn stops a job and forgets those of its turn when the turn has ended. It returns at the latest when ctx ends.
func (j *jobs) watchTurn(ctx context.Context, watched *job) {
	tick := time.NewTicker(checkTurn)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done(): // the worker stops, or the job is too old
			return
		case <-tick.C:
			if j.o.Ended != nil && j.o.Ended(ctx, watched.turn) {
				watched.stop()
				j.forget(watched.turn)
				return
			}
		}
	}
}

// forget drops the jobs of a turn.
func (j *jobs) forget(turnID string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = slices.DeleteFunc(j.all, func(one *job) bool { return one.turn == turnID })
}

// find returns a job of the calling turn.
func (j *jobs) find(ctx context.Context, id string) (*job, error) {
	req, _ := tools.CallInfo(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.of(req.Turn) {
		if one.id == id {
			return one, nil
		}
	}
	return nil, fmt.Errorf("this turn has no job %q on this worker: if it had one, it has ended with its worker, and what "+
		"it did since then is unknown", id)
}

// read implements job_read.
func (j *jobs) read(ctx context.Context, in jobReadInput) (string, error) {
	if in.ID == "" {
		return j.list(ctx), nil
	}
	found, err := j.find(ctx, in.ID)
	if err != nil {
		return "", err
	}
	seconds := min(max(in.Wait, 0), maxJobWait)
	wait := time.NewTimer(time.Duration(seconds) * time.Second)
	defer wait.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting && found.out.written() <= in.After; {
		select {
		case <-found.done:
			waiting = false
		case <-wait.C:
			waiting = false
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
	return found.report(in.After), nil
}

// report returns the state of a job and its output after some bytes.
func (one *job) report(after int64) string {
	state := "running"
	select {
	case <-one.done:
		state = one.end
	default:
	}
	text, from, next := one.out.part(after, maxJobShown)
	return fmt.Sprintf("[%s: %s; bytes %d to %d of %d]\n%s", one.id, state, from, next, one.out.written(), text)
}

// list lists the jobs of the calling turn.
func (j *jobs) list(ctx context.Context) string {
	req, _ := tools.CallInfo(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	var out strings.Builder
	for _, one := range j.of(req.Turn) {
		state, _, _ := strings.Cut(one.report(one.out.written()), ";")
		fmt.Fprintf(&out, "%s], %s: %s\n", state, time.Since(one.began).Round(time.Second), one.line)
	}
	if out.Len() == 0 {
		return "this turn has no jobs"
	}
	return out.String()
}

// end implements job_stop.
func (j *jobs) end(ctx context.Context, in jobStopInput) (string, error) {
	found, err := j.find(ctx, in.ID)
	if err != nil {
		return "", err
	}
	return j.o.In(ctx, title(found.line), func(sandbox.Place) (string, error) {
		found.stop()
		select {
		case <-found.done:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return found.report(max(0, found.out.written()-maxJobShown)), nil
	})
}

// newMaskedOutput returns an output that keeps the text without secrets, because it is read in parts.
func newMaskedOutput(secrets *redact.Redactor) *output {
	done := make(chan struct{})
	close(done)
	return &output{stop: func() {}, done: done, stream: secrets.Stream(), masked: true}
}
