package tests

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/loopback"
	model "github.com/everturn/everturn/tests/sessionmodel"
)

// duplicates is the number of trials of messages that are sent more than once. The long run takes minutes:
//
//	go test ./tests -run TestDuplicateSends -duplicates 1000 -v
var duplicates = flag.Int("duplicates", 18, "trials of messages that are sent more than once")

// duplicateLanes is the number of concurrent trials, each behind its own proxy.
const duplicateLanes = 10

// TestDuplicateSends runs clients that do not learn that their message was accepted, and send it again: until they
// learn it, from twenty connections at once, after the turn is over, after it has continued in a new run, and to a run
// that has begun with another message. Each message is taken and answered once.
func TestDuplicateSends(t *testing.T) {
	t.Parallel()
	g := newSessionsEnv(t)
	var next, lost, sent atomic.Int64
	var lanes sync.WaitGroup
	for range duplicateLanes {
		proxy, err := loopback.NewProxy(g.cfg.Temporal.Address)
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		c := g.server.dial(proxy.Address())
		client := client.New(c, client.Options{TaskQueue: g.cfg.Temporal.TaskQueue, Agent: "default", Journal: g.store})
		lanes.Go(func() {
			for n := next.Add(1); n <= int64(*duplicates) && !t.Failed(); n = next.Add(1) {
				d := &retryingClient{sessionClient: g.sessionClient(t, fmt.Sprintf("dup-%d", n), client), proxy: proxy,
					random: rand.New(rand.NewPCG(1, uint64(n)))}
				trial := trials[int(n)%len(trials)]
				trial.run(d)
				d.verify(trial.name)
				lost.Add(d.lost.Load())
				sent.Add(d.sent.Load())
			}
		})
	}
	lanes.Wait()
	t.Logf("%d trials: %d messages sent %d times, %d answers lost; %d turns, %d runs replayed, %d of them continued in "+
		"the middle of a turn",
		*duplicates, g.messages.Load(), sent.Load(), lost.Load(), g.turns.Load(), g.runs.Load(), g.continued.Load())
	assert.NotZero(t, lost.Load(), "some answers were lost")
}

// trials are the ways in which a message arrives twice.
var trials = []struct {
	name string
	run  func(*retryingClient)
}{
	{"the answer to a first message is lost", func(d *retryingClient) { d.insist(d.message("look")) }},
	{"the answer to a message that joins is lost", func(d *retryingClient) {
		d.insist(d.message("slow", "slow", "slow"))
		d.insist(d.message("look"))
	}},
	{"twenty clients at once", func(d *retryingClient) {
		s := d.message("look", "look")
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { d.hand(s) })
		}
		all.Wait()
		d.sent.Add(20)
	}},
	{"the turn is over", func(d *retryingClient) {
		s := d.message("look")
		d.insist(s)
		d.settle()
		d.insist(s)
		d.insist(s)
	}},
	{"the turn goes on in a new run", func(d *retryingClient) {
		first, second := d.message("slow", "look", "look", "slow"), d.message("slow", "look", "slow", "look", "slow", "slow")
		d.insist(first)
		run := d.running()
		d.insist(second)
		require.Eventually(d.t, func() bool { return d.running() != run }, within, 5*time.Millisecond,
			"the turn never went on in a new run")
		d.insist(first)
		d.insist(second)
		d.settle()
		d.insist(second)
	}},
	{"a fresh run has begun", func(d *retryingClient) {
		old := d.message("look")
		d.insist(old)
		d.settle()
		fresh := d.message("slow", "slow")
		var both sync.WaitGroup
		both.Go(func() { d.insist(fresh) })
		both.Go(func() { d.again(old) })
		both.Wait()
		d.insist(old)
	}},
}

// retryingClient is a client that does not know whether its message was accepted.
type retryingClient struct {
	*sessionClient
	proxy  *loopback.Proxy
	random *rand.Rand
	lost   atomic.Int64
	sent   atomic.Int64
}

// message returns the next message, which the session will accept.
func (d *retryingClient) message(do ...string) model.Sent {
	order, ids := d.m.Next(1)
	s := model.Sent{ID: ids[0], Order: order, Do: do}
	d.m.Take(s)
	d.messages.Add(1)
	return s
}

// insist sends a message until its client learns that it was accepted. At first the client gives up, or its connection
// breaks, at random moments.
func (d *retryingClient) insist(s model.Sent) {
	for range 1 + d.random.IntN(4) {
		d.attempt(s, time.Duration(d.random.IntN(25_000))*time.Microsecond, d.random.IntN(4) == 0)
	}
	d.again(s)
}

func (d *retryingClient) attempt(s model.Sent, patience time.Duration, cut bool) {
	ctx, cancel := context.WithTimeout(d.context(), patience)
	defer cancel()
	if cut {
		done := make(chan struct{})
		timer := time.AfterFunc(patience/2, func() {
			defer close(done)
			d.proxy.Reset()
		})
		defer func() {
			if !timer.Stop() {
				<-done
			}
		}()
	}
	d.sent.Add(1)
	if d.try(ctx, s) != nil {
		d.lost.Add(1)
	}
}

// again sends a message again until it is accepted.
func (d *retryingClient) again(s model.Sent) {
	d.sent.Add(1)
	require.Eventually(d.t, func() bool { return d.try(d.context(), s) == nil }, within, 10*time.Millisecond,
		"message %s is not accepted", s.ID)
}

// running returns the ID of the session's latest run.
func (d *retryingClient) running() string {
	w, err := d.env.client.DescribeWorkflowExecution(d.context(), d.m.Session, "")
	require.NoError(d.t, err)
	return w.WorkflowExecutionInfo.Execution.RunId
}

// verify checks the results, in particular that nothing was done twice.
func (d *retryingClient) verify(name string) {
	d.finish(true)
	d.check(name)
	steps := 0
	turns, err := d.store.Turns(d.context(), d.m.Session)
	require.NoError(d.t, err)
	for _, record := range turns {
		steps += record.Steps
	}
	most := 0
	for _, s := range d.m.Sent() {
		most += len(s.Do) + 1
	}
	assert.LessOrEqual(d.t, steps, most, "%s: a message was worked on more than once", name)
	assert.LessOrEqual(d.t, len(turns), len(d.m.Sent()), "%s: a message has more than one turn", name)
}
