package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/internal/sandbox"
	"github.com/everturn/everturn/workflows/turn"
)

// The limits of commands in the background.
const (
	maxJobs      = 16            // of a session
	jobTimeout   = time.Hour     // of a job that ends with its turn
	keptTimeout  = 8 * time.Hour // of one that is kept
	maxJobWait   = 60            // seconds of one read
	maxJobShown  = 32 << 10      // bytes of output that one read returns
	maxJobInput  = 64 << 10      // bytes of one write
	writeTimeout = 5 * time.Second
)

// jobs are the commands that run in the background on this worker. A job belongs to a session. It ends with the turn
// that has started it, unless it is kept.
type jobs struct {
	o        Options
	registry *tools.Registry

	mu  sync.Mutex // guards all
	all []*job
}

type jobInput struct {
	Command string `json:"command" jsonschema:"the command line, as for sh -c"`
	Keep    bool   `json:"keep,omitempty" jsonschema:"let the job outlive this turn, for later turns of the session"`
}

type jobReadInput struct {
	ID    string `json:"id,omitempty" jsonschema:"the job; without it, the jobs are listed"`
	After int64  `json:"after,omitempty" jsonschema:"the first byte of the output to read; 0 by default"`
	Wait  int    `json:"wait,omitempty" jsonschema:"seconds to wait for more output or for the job's end, at most 60"`
}

type jobWriteInput struct {
	ID string `json:"id" jsonschema:"the job"`
	// Command has the name of the argument that rules of commands read: the job may be a shell.
	Command string `json:"command,omitempty" jsonschema:"what the job reads from its standard input; a line needs its end"`
	End     bool   `json:"end,omitempty" jsonschema:"end the input afterwards"`
}

type jobStopInput struct {
	ID string `json:"id" jsonschema:"the job"`
}

// registerJobs adds the tools for commands in the background. Their state is on one worker, so all of a turn's calls go
// to it.
func registerJobs(r *tools.Registry, o Options, rule turn.CommandRule) error {
	j := &jobs{o: o, registry: r}
	forgetRecords(o.Records)
	high := []tools.Option{tools.Risk(turn.RiskHigh), tools.Commands(rule), tools.SessionAffinity()}
	low := []tools.Option{tools.Risk(turn.RiskLow), tools.SessionAffinity()}
	start := high
	if o.Before > 0 {
		start = append([]tools.Option{tools.Timeout(o.Before + grace)}, high...)
	}
	return errors.Join(
		tools.Add(r, "job_start", fmt.Sprintf("Start a command line in the background, in %s. Another command cannot reach "+
			"a server that it starts. Isolation: %s. It ends with the turn, and after %s at the latest; with keep it outlives "+
			"the turn, for %s at most. The result is the job's ID, for job_read, job_write and job_stop.", o.Where, o.isolation,
			jobTimeout, keptTimeout), j.start, start...),
		tools.Add(r, "job_read", "Read the output of a background job and whether it runs, or list the jobs.", j.read,
			append(low, tools.ReadOnly(), tools.Timeout(maxJobWait*time.Second+grace))...),
		tools.Add(r, "job_write", "Write to the standard input of a background job.", j.write, high...),
		tools.Add(r, "job_stop", "End a background job with all of its processes, and read the rest of its output.", j.end,
			low...))
}

// start implements job_start.
func (j *jobs) start(ctx context.Context, in jobInput) (string, error) {
	started := &job{owner: ownerOf(ctx), line: in.Command, keep: in.Keep, limit: jobTimeout, began: time.Now(),
		done: make(chan struct{}), out: newMaskedOutput(j.o.secrets), hosts: j.o.newProxy(nil)}
	if in.Keep {
		started.limit = keptTimeout
	}
	return j.o.Places.StartJob(ctx, title(in.Command), started.limit, func(p sandbox.Place) (string, error) {
		if err := j.begin(ctx, started, p); err != nil {
			return "", err
		}
		if in.Keep {
			return fmt.Sprintf("%s started; it is kept for %s at most", started.id, started.limit), nil
		}
		return started.id + " started", nil
	})
}

// owner is what a job belongs to.
type owner struct{ tenant, session, turn string }

func ownerOf(ctx context.Context) owner {
	req, _ := tools.CallInfo(ctx)
	return owner{req.Tenant, req.Session, req.Turn}
}

// sees reports whether the calls of another owner find the jobs of this one: those of the same session.
func (o owner) sees(other owner) bool { return o.tenant == other.tenant && o.session == other.session }

// begin adds a job and starts it.
func (j *jobs) begin(ctx context.Context, started *job, place sandbox.Place) error {
	j.mu.Lock() // no other call finds the job before it runs
	defer j.mu.Unlock()
	err := j.add(started)
	if err == nil {
		if err = j.run(ctx, started, place); err != nil {
			j.drop(started)
		}
	}
	return err
}

// add adds a job and gives it its ID. If the session has too many, one that has ended is forgotten. The caller holds
// the lock.
func (j *jobs) add(added *job) error {
	own := j.of(added.owner)
	if len(own) >= maxJobs {
		ended := slices.IndexFunc(own, (*job).ended)
		if ended < 0 {
			return fmt.Errorf("this session has %d jobs, the maximum: stop one", maxJobs)
		}
		j.drop(own[ended])
	}
	number := 1
	for _, one := range own {
		number = max(number, one.number+1)
	}
	var err error
	if added.number, added.record, err = newRecord(j.o.Records, added.owner, number); err != nil {
		return fmt.Errorf("recording the job: %w", err)
	}
	added.id = fmt.Sprintf("job-%d", added.number)
	j.all = append(j.all, added)
	return nil
}

// of returns the jobs that an owner sees. The caller holds the lock.
func (j *jobs) of(o owner) (out []*job) {
	for _, one := range j.all {
		if one.owner.sees(o) {
			out = append(out, one)
		}
	}
	return out
}

// forget drops a job.
func (j *jobs) forget(one *job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.drop(one)
}

// drop is forget for a caller that holds the lock.
func (j *jobs) drop(one *job) {
	j.all = slices.DeleteFunc(j.all, func(other *job) bool { return other == one })
	one.forgotten.Store(true)
	if one.record != "" {
		_ = os.Remove(one.record) // forgetRecords removes what is left
	}
}

// find returns a job of the calling session.
func (j *jobs) find(ctx context.Context, id string) (*job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.of(ownerOf(ctx)) {
		if one.id == id {
			return one, nil
		}
	}
	return nil, fmt.Errorf("this session has no job %q on this worker", turn.Truncate(id, 100))
}

// read implements job_read.
func (j *jobs) read(ctx context.Context, in jobReadInput) (string, error) {
	if in.ID == "" {
		return j.list(ctx), nil
	}
	found, err := j.find(ctx, in.ID)
	if err != nil {
		if lost, ok := readRecord(j.o.Records, ownerOf(ctx), in.ID); ok {
			return lost.report(in.ID), nil
		}
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

// list lists the jobs of the calling session.
func (j *jobs) list(ctx context.Context) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out strings.Builder
	known := map[string]bool{}
	for _, one := range j.of(ownerOf(ctx)) {
		known[one.id] = true
		fmt.Fprintf(&out, "[%s: %s], %s: %s\n", one.id, one.state(), time.Since(one.began).Round(time.Second), one.line)
	}
	for id, lost := range records(j.o.Records, ownerOf(ctx)) {
		if !known[id] {
			fmt.Fprintf(&out, "[%s: %s]: %s\n", id, lost.state(), lost.Line)
		}
	}
	if out.Len() == 0 {
		return "there are no jobs"
	}
	return out.String()
}

// write implements job_write.
func (j *jobs) write(ctx context.Context, in jobWriteInput) (string, error) {
	found, err := j.find(ctx, in.ID)
	if err != nil {
		return "", err
	}
	if len(in.Command) > maxJobInput {
		return "", fmt.Errorf("the input is %d bytes; the maximum is %d", len(in.Command), maxJobInput)
	}
	if found.ended() {
		return "", fmt.Errorf("%s has ended: %s", found.id, found.end)
	}
	found.writing.Lock()
	defer found.writing.Unlock()
	err = found.in.SetWriteDeadline(time.Now().Add(writeTimeout))
	n := 0
	if err == nil {
		n, err = found.in.WriteString(in.Command)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "", fmt.Errorf("%s does not read its input: it got %d of %d bytes", found.id, n, len(in.Command))
	case err != nil:
		return "", fmt.Errorf("the input of %s has ended", found.id)
	}
	if in.End {
		_ = found.in.Close() // it was written already
	}
	return fmt.Sprintf("wrote %d bytes to %s", n, found.id), nil
}

// end implements job_stop.
func (j *jobs) end(ctx context.Context, in jobStopInput) (string, error) {
	found, err := j.find(ctx, in.ID)
	if err != nil {
		return "", err
	}
	found.stop()
	select {
	case <-found.done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return found.report(max(0, found.out.written()-maxJobShown)), nil
}
