package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/tests/bench/report"
	"github.com/everturn/everturn/workflows/turn"
)

// starters is the number of turns that are started in parallel.
const starters = 32

// waitingTurns makes many turns wait, every other one for an approval and the rest for an answer, and then decides some
// of these requests.
func (c *crowd) waitingTurns(ctx context.Context, size crowdSize) (out report.Waiting, err error) {
	out.Turns = size.waiting
	if out.IdleBytes, err = c.resting(ctx); err != nil {
		return out, err
	}
	before, err := c.measureJournal(ctx)
	if err != nil {
		return out, err
	}
	began := time.Now()
	turns, err := c.beginWaiting(ctx, size.waiting)
	if err != nil {
		return out, err
	}
	out.Seconds = time.Since(began).Seconds()
	after, err := c.measureJournal(ctx)
	if err != nil {
		return out, err
	}
	out.JournalBytes = float64(after.bytes-before.bytes) / float64(size.waiting)
	if out.WaitingBytes, err = c.resting(ctx); err != nil {
		return out, err
	}
	if out.PeakBytes, err = proc.PeakBytes(c.worker.PID()); err != nil {
		return out, err
	}
	for _, a := range turns[len(turns)-2:] { // one of each kind
		d, err := c.harness.client.DescribeWorkflowExecution(ctx, a.Session, a.ID)
		if err != nil {
			return out, err
		}
		out.Events = max(out.Events, d.WorkflowExecutionInfo.HistoryLength)
		out.HistoryBytes = max(out.HistoryBytes, d.WorkflowExecutionInfo.HistorySizeBytes)
	}
	out.Woken, err = c.wakeSome(ctx, turns, size)
	return out, err
}

// beginWaiting starts the turns and returns when all of them wait.
func (c *crowd) beginWaiting(ctx context.Context, n int) ([]client.Turn, error) {
	turns := make([]client.Turn, n)
	names := make([]string, n)
	for i := range names {
		names[i] = c.session()
	}
	errs := each(n, starters, func(i int) (err error) {
		turns[i], err = c.sendTo(ctx, names[i], scene{Kind: []sceneKind{sceneApproval, sceneQuestion}[i%2]})
		return err
	})
	if errs != nil {
		return nil, errs
	}
	limited, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	for {
		j, err := c.measureJournal(limited)
		if err != nil {
			return nil, err
		}
		if int(j.rows) == n {
			return turns, nil
		}
		select {
		case <-limited.Done():
			return nil, fmt.Errorf("%d of %d turns wait for people: %w; the worker says: %s", j.rows, n, context.Cause(limited),
				c.worker.Tail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// each calls do n times, with at most atOnce calls in parallel.
func each(n, atOnce int, do func(i int) error) error {
	errs := make([]error, n)
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := range numbers {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
	return errors.Join(errs...)
}

// measureJournal returns the size of the journal and its number of pending requests.
func (c *crowd) measureJournal(ctx context.Context) (journalSize, error) {
	return c.harness.journalSize(ctx, c.name, c.harness.fleet != nil, "SELECT count(*) FROM requests WHERE status = ''")
}

const (
	// restEvery is the interval at which an idle worker's memory is read. The worker is at rest when restLooks reads in
	// a row show no decrease: Go's runtime returns memory gradually.
	restEvery = 2 * time.Second
	restLooks = 5
	restMost  = 3 * time.Minute
)

// resting returns the worker's resident memory when it has stopped decreasing.
func (c *crowd) resting(ctx context.Context) (least int64, err error) {
	end := time.Now().Add(restMost)
	for same := 0; same < restLooks && time.Now().Before(end); same++ {
		now, err := proc.ResidentBytes(c.worker.PID())
		if err != nil {
			return 0, err
		}
		if least == 0 || now < least-(256<<10) {
			least, same = now, 0
		}
		select {
		case <-time.After(restEvery):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return least, nil
}

// wakeSome decides the requests of some turns, first one at a time and then many in parallel.
func (c *crowd) wakeSome(ctx context.Context, turns []client.Turn, size crowdSize) ([]report.Waited, error) {
	took := map[int][]time.Duration{} // approvals are even, answers odd
	step := len(turns) / (size.woken + size.burst)
	for n := range size.woken {
		i := n * step
		i += (n + i) % 2 // every other one of each kind
		one, err := c.wake(ctx, turns[i], i%2)
		if err != nil {
			return nil, err
		}
		took[i%2] = append(took[i%2], one)
	}
	burst := make([]time.Duration, size.burst)
	err := each(size.burst, size.burst, func(n int) (err error) {
		i := (size.woken + n) * step
		burst[n], err = c.wake(ctx, turns[i], i%2)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := []report.Waited{report.Wait("an approval, one at a time", took[0]),
		report.Wait("an answer, one at a time", took[1])}
	for i := range out {
		out[i].AimMax = 1000
	}
	return append(out, report.Wait(fmt.Sprintf("%d at once", size.burst), burst)), nil
}

// wake decides the turn's request and returns the time until the turn's next output.
func (c *crowd) wake(ctx context.Context, a client.Turn, odd int) (time.Duration, error) {
	list, err := c.journal.Requests(ctx, a.ID)
	if err != nil || len(list) != 1 {
		return 0, errors.Join(err, fmt.Errorf("turn %s has %d waits", a.ID, len(list)))
	}
	w := list[0]
	asked, err := c.until(ctx, a.ID, -1, turn.EventApprovalRequested, turn.EventQuestionAsked)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if odd == 0 {
		_, err = c.sessions.Approve(ctx, client.DecideInput{Session: a.Session, Request: w.ID, ArgumentsHash: w.ArgumentsHash,
			By: "bench"})
	} else {
		err = c.sessions.Answer(ctx, client.DecideInput{Session: a.Session, Request: w.ID,
			Text: scene{Kind: sceneFinal}.message(), By: "bench"})
	}
	if err != nil {
		return 0, err
	}
	_, err = c.until(ctx, a.ID, asked, turn.EventToolCallStarted, turn.EventTextDelta)
	return time.Since(began), err
}
