package tests

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/check"
	model "github.com/everturn/everturn/tests/sessionmodel"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// sessionClient is one session with its clients.
type sessionClient struct {
	*sessionsEnv
	t      require.TestingT
	m      *model.Model
	client *client.Client
	over   map[string]bool // messages whose turn is over
	mu     sync.Mutex
	starts map[string]bool // the runs that messages have started
}

func (e *sessionsEnv) sessionClient(t require.TestingT, name string, client *client.Client) *sessionClient {
	c := &sessionClient{sessionsEnv: e, t: t, m: model.New(name), client: client, over: map[string]bool{},
		starts: map[string]bool{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.models[name] = c.m
	return c
}

func (c *sessionClient) do(o model.Op) {
	switch o.Kind {
	case model.Send:
		c.send(o, 1)
	case model.Burst:
		c.send(o, 3)
	case model.Resend:
		if sent := c.m.Sent(); len(sent) > 0 {
			c.resent.Add(1)
			c.hand(sent[o.Which%len(sent)])
		}
	case model.Decide:
		c.decide(o.Verdict)
	case model.Answer:
		c.answer(o)
	case model.Stop:
		c.stops.Add(1)
		if err := c.client.Stop(c.context(), c.m.Session); err != nil {
			require.ErrorIs(c.t, err, client.ErrNotRunning)
		}
	case model.Settle:
		c.settle()
	case model.Pause:
		timer := time.NewTimer(o.Wait) // the operator's delay is what the test exercises; no event is awaited
		<-timer.C
	}
}

func (c *sessionClient) context() context.Context { return c.env.t.Context() }

func (c *sessionClient) send(o model.Op, n int) {
	order, ids := c.m.Next(n)
	var all sync.WaitGroup
	for _, id := range ids {
		s := model.Sent{ID: id, After: o.After, Order: order, Do: o.Do}
		all.Go(func() {
			if c.hand(s) {
				c.m.Take(s)
				c.messages.Add(1)
			}
		})
	}
	all.Wait()
}

// hand sends a message, which the session always accepts. While no worker answers in time, as on a busy machine, it
// sends the message again.
func (c *sessionClient) hand(s model.Sent) bool {
	err := c.try(c.context(), s)
	for start := time.Now(); errors.Is(err, client.ErrNoWorker) && time.Since(start) < within; {
		err = c.try(c.context(), s)
	}
	return assert.NoError(c.t, err, "sending %s", s.ID)
}

// try sends a message and returns the error that its client gets.
func (c *sessionClient) try(ctx context.Context, s model.Sent) error {
	a, err := c.client.Send(ctx, client.SendInput{Session: c.m.Session,
		Message: workflows.Message{ID: s.ID, Text: model.Text(c.m.Session, s.ID, s.Do), Queue: s.After}})
	if err == nil && !a.Merged {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.starts[a.ID] = true
	}
	return err
}

// briefly is how long a client that wants to decide waits for a pending request.
const briefly = 100 * time.Millisecond

// open waits for pending requests, at most for within, and only while the session has unfinished turns. A request whose
// decision is accepted but not recorded yet is not pending.
func (c *sessionClient) open(within time.Duration) []turn.Request {
	ctx, cancel := context.WithTimeout(c.context(), within)
	defer cancel()
	for {
		changed := c.journal.Changed(ctx)
		requests, err := c.journal.PendingRequests(c.context(), c.m.Session, 100)
		require.NoError(c.t, err)
		requests = slices.DeleteFunc(requests, func(w turn.Request) bool {
			return c.m.HasDecided(w.Turn, w.ID) || c.m.HasAnswered(w.Turn, w.ID)
		})
		if len(requests) > 0 || c.idle() {
			return requests
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// idle reports whether every message has a turn that is over.
func (c *sessionClient) idle() bool {
	for _, s := range c.m.Sent() {
		if c.over[s.ID] {
			continue
		}
		rec, err := c.journal.Delivered(c.context(), c.m.Session, s.ID)
		if err != nil {
			require.ErrorIs(c.t, err, journal.ErrNotFound)
			return false
		}
		if !rec.State.Terminal() {
			return false
		}
		c.over[s.ID] = true
	}
	return true
}

// settle waits until the session has pending requests or is idle.
func (c *sessionClient) settle() []turn.Request {
	requests := c.open(within)
	if len(requests) == 0 && !c.idle() {
		require.Fail(c.t, "the session is stuck", "%s:\n%s", c.m.Session, c.state())
	}
	return requests
}

// decide decides the oldest pending approval. If no approval is pending, it checks that a decision is refused.
func (c *sessionClient) decide(v model.Verdict) {
	requests := c.open(briefly)
	i := slices.IndexFunc(requests, func(w turn.Request) bool { return w.Kind == turn.RequestApproval })
	if i < 0 {
		_, err := c.client.Approve(c.context(), client.DecideInput{Session: c.m.Session, Request: "1.0", ArgumentsHash: "none"})
		c.refuses(err)
		return
	}
	w := requests[i]
	switch {
	case v == model.Conflict:
		var both sync.WaitGroup
		taken := [2]bool{}
		for i, allow := range []bool{true, false} {
			both.Go(func() { taken[i] = c.rules(w, v, allow) })
		}
		both.Wait()
		assert.NotEqual(c.t, [2]bool{true, true}, taken, "call %s was both allowed and denied", w.ID)
	case v == model.Twice:
		c.rules(w, model.Allow, true)
		c.rules(w, v, true)
	default:
		c.rules(w, v, v != model.Deny && v != model.DenyAlways)
	}
}

// rules sends one decision and reports whether it was accepted. A valid decision is refused only if the request has
// been settled otherwise.
func (c *sessionClient) rules(w turn.Request, v model.Verdict, allow bool) bool {
	a := client.DecideInput{Session: c.m.Session, Turn: w.Turn, Request: w.ID, ArgumentsHash: w.ArgumentsHash,
		By: c.m.Person()}
	switch v {
	case model.WrongHash:
		a.ArgumentsHash = strings.Repeat("0", len(a.ArgumentsHash))
	case model.WrongCall:
		a.Request = "99.0"
	case model.WrongTurn:
		a.Turn = "another"
	case model.AlwaysCall:
		a.Grant = turn.GrantCall
	case model.AlwaysTool, model.DenyAlways:
		a.Grant = turn.GrantTool
	}
	e := check.Entry{Event: check.Deciding, Turn: a.Turn, Call: a.Request, Hash: a.ArgumentsHash, Allow: allow, By: a.By,
		Grant: a.Grant, Tool: w.Tool}
	c.m.Note(e)
	_, err := decider(c.client, allow)(c.context(), a)
	if e.Event = check.Decided; err != nil {
		e.Event = check.Refused
		c.refuses(err)
	}
	c.m.Note(e)
	switch {
	case v.Wrong():
		assert.Error(c.t, err, "%s was accepted", v)
	case err != nil:
		c.settledBy(w, a.By, err)
	default:
		c.decided.Add(1)
	}
	return err == nil
}

// refuses checks that the session refused the operation, and that it did not fail for another reason.
func (c *sessionClient) refuses(err error) {
	c.figures.refused.Add(1)
	var refused *turn.Error
	if !errors.As(err, &refused) {
		assert.ErrorIs(c.t, err, client.ErrNotRunning)
		return
	}
	assert.Contains(c.t, []turn.Code{turn.CodeNotWaiting, turn.CodeToolDrift, turn.CodeInputInvalid}, refused.Code)
}

// settledBy waits until a request whose decision was refused is settled, and checks that the refused decision was not
// applied.
func (c *sessionClient) settledBy(w turn.Request, but string, refusal error) {
	ctx, cancel := context.WithTimeout(c.context(), within)
	defer cancel()
	for {
		changed := c.journal.Changed(ctx)
		requests, err := c.journal.Requests(c.context(), w.Turn)
		require.NoError(c.t, err)
		i := slices.IndexFunc(requests, func(x turn.Request) bool { return x.ID == w.ID })
		if r := requests[i].Decision; r != nil {
			assert.NotEqual(c.t, but, r.By, "what was refused was applied")
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.Fail(c.t, "a decision was refused, and the wait is open still", "session %s: %v: %+v\n%s", c.m.Session, refusal, w,
				c.state())
		}
	}
}

// answer answers the open question. If there is none, it checks that an answer is refused.
func (c *sessionClient) answer(o model.Op) {
	requests := c.open(briefly)
	i := slices.IndexFunc(requests, func(w turn.Request) bool { return w.Kind == turn.RequestQuestion })
	if i < 0 || o.Wrong {
		err := c.client.Answer(c.context(), client.DecideInput{Session: c.m.Session, Request: "q99", Text: "What?"})
		c.refuses(err)
		return
	}
	c.replies(requests[i], o.Do)
}

func (c *sessionClient) replies(w turn.Request, do []string) {
	by := c.m.Person()
	text := model.Text(c.m.Session, by, do)
	err := c.client.Answer(c.context(),
		client.DecideInput{Session: c.m.Session, Turn: w.Turn, Request: w.ID, By: by, Text: text})
	if err != nil {
		c.refuses(err)
		c.settledBy(w, by, err)
		return
	}
	c.m.Answered(w.Turn, w.ID, text)
	c.figures.answered.Add(1)
}

// finish decides and answers the session's requests until none is left.
func (c *sessionClient) finish(allow bool) {
	for requests := c.settle(); len(requests) > 0; requests = c.settle() {
		for _, w := range requests {
			switch {
			case w.Kind == turn.RequestQuestion:
				c.replies(w, nil)
			case allow:
				c.rules(w, model.Allow, true)
			default:
				c.rules(w, model.Deny, false)
			}
		}
	}
	if len(c.m.Sent()) > 0 {
		require.Eventually(c.t, c.closed, within, 5*time.Millisecond, "session %s runs still", c.m.Session)
	}
}
