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

func (g *sessionsEnv) sessionClient(t require.TestingT, name string, client *client.Client) *sessionClient {
	k := &sessionClient{sessionsEnv: g, t: t, m: model.New(name), client: client, over: map[string]bool{},
		starts: map[string]bool{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.models[name] = k.m
	return k
}

func (k *sessionClient) do(o model.Op) {
	switch o.Kind {
	case model.Send:
		k.send(o, 1)
	case model.Burst:
		k.send(o, 3)
	case model.Resend:
		if sent := k.m.Sent(); len(sent) > 0 {
			k.resent.Add(1)
			k.hand(sent[o.Which%len(sent)])
		}
	case model.Decide:
		k.decide(o.Verdict)
	case model.Answer:
		k.answer(o)
	case model.Stop:
		k.stops.Add(1)
		if err := k.client.Stop(k.context(), k.m.Session); err != nil {
			require.ErrorIs(k.t, err, client.ErrNotRunning)
		}
	case model.Settle:
		k.settle()
	case model.Pause:
		timer := time.NewTimer(o.Wait) // the operator's delay is what the test exercises; no event is awaited
		<-timer.C
	}
}

func (k *sessionClient) context() context.Context { return k.env.t.Context() }

func (k *sessionClient) send(o model.Op, n int) {
	order, ids := k.m.Next(n)
	var all sync.WaitGroup
	for _, id := range ids {
		s := model.Sent{ID: id, After: o.After, Order: order, Do: o.Do}
		all.Go(func() {
			if k.hand(s) {
				k.m.Take(s)
				k.messages.Add(1)
			}
		})
	}
	all.Wait()
}

// hand sends a message, which the session always accepts. While no worker answers in time, as on a busy machine, it
// sends the message again.
func (k *sessionClient) hand(s model.Sent) bool {
	err := k.try(k.context(), s)
	for start := time.Now(); errors.Is(err, client.ErrNoWorker) && time.Since(start) < within; {
		err = k.try(k.context(), s)
	}
	return assert.NoError(k.t, err, "sending %s", s.ID)
}

// try sends a message and returns the error that its client gets.
func (k *sessionClient) try(ctx context.Context, s model.Sent) error {
	a, err := k.client.Send(ctx, client.SendInput{Session: k.m.Session,
		Message: workflows.Message{ID: s.ID, Text: model.Text(k.m.Session, s.ID, s.Do), Queue: s.After}})
	if err == nil && !a.Merged {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.starts[a.ID] = true
	}
	return err
}

// briefly is how long a client that wants to decide waits for a pending request.
const briefly = 100 * time.Millisecond

// open waits for pending requests, at most for within, and only while the session has unfinished turns. A request whose
// decision is accepted but not recorded yet is not pending.
func (k *sessionClient) open(within time.Duration) []journal.RequestRecord {
	ctx, cancel := context.WithTimeout(k.context(), within)
	defer cancel()
	for {
		changed := k.store.Changed(ctx)
		requests, err := k.store.PendingRequests(k.context(), k.m.Session, 100)
		require.NoError(k.t, err)
		requests = slices.DeleteFunc(requests, func(w journal.RequestRecord) bool {
			return k.m.HasDecided(w.Turn, w.ID) || k.m.HasAnswered(w.Turn, w.ID)
		})
		if len(requests) > 0 || k.idle() {
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
func (k *sessionClient) idle() bool {
	for _, s := range k.m.Sent() {
		if k.over[s.ID] {
			continue
		}
		rec, err := k.store.Delivered(k.context(), k.m.Session, s.ID)
		if err != nil {
			require.ErrorIs(k.t, err, journal.ErrNotFound)
			return false
		}
		if !rec.State.Terminal() {
			return false
		}
		k.over[s.ID] = true
	}
	return true
}

// settle waits until the session has pending requests or is idle.
func (k *sessionClient) settle() []journal.RequestRecord {
	requests := k.open(within)
	if len(requests) == 0 && !k.idle() {
		require.Fail(k.t, "the session is stuck", "%s:\n%s", k.m.Session, k.state())
	}
	return requests
}

// decide decides the oldest pending approval. If no approval is pending, it checks that a decision is refused.
func (k *sessionClient) decide(v model.Verdict) {
	requests := k.open(briefly)
	i := slices.IndexFunc(requests, func(w journal.RequestRecord) bool { return w.Kind == turn.RequestApproval })
	if i < 0 {
		_, err := k.client.Approve(k.context(), client.DecideInput{Session: k.m.Session, Call: "1.0", ArgumentsHash: "none"})
		k.refuses(err)
		return
	}
	w := requests[i]
	switch {
	case v == model.Conflict:
		var both sync.WaitGroup
		taken := [2]bool{}
		for i, allow := range []bool{true, false} {
			both.Go(func() { taken[i] = k.rules(w, v, allow) })
		}
		both.Wait()
		assert.NotEqual(k.t, [2]bool{true, true}, taken, "call %s was both allowed and denied", w.ID)
	case v == model.Twice:
		k.rules(w, model.Allow, true)
		k.rules(w, v, true)
	default:
		k.rules(w, v, v != model.Deny && v != model.DenyAlways)
	}
}

// rules sends one decision and reports whether it was accepted. A valid decision is refused only if the request has
// been settled otherwise.
func (k *sessionClient) rules(w journal.RequestRecord, v model.Verdict, allow bool) bool {
	a := client.DecideInput{Session: k.m.Session, Turn: w.Turn, Call: w.ID, ArgumentsHash: w.ArgumentsHash,
		By: k.m.Person()}
	switch v {
	case model.WrongHash:
		a.ArgumentsHash = strings.Repeat("0", len(a.ArgumentsHash))
	case model.WrongCall:
		a.Call = "99.0"
	case model.WrongTurn:
		a.Turn = "another"
	case model.AlwaysCall:
		a.Grant = turn.GrantCall
	case model.AlwaysTool, model.DenyAlways:
		a.Grant = turn.GrantTool
	}
	e := check.Entry{Event: check.Deciding, Turn: a.Turn, Call: a.Call, Hash: a.ArgumentsHash, Allow: allow, By: a.By,
		Grant: a.Grant, Tool: w.Tool}
	k.m.Note(e)
	_, err := decider(k.client, allow)(k.context(), a)
	if e.Event = check.Decided; err != nil {
		e.Event = check.Refused
		k.refuses(err)
	}
	k.m.Note(e)
	switch {
	case v.Wrong():
		assert.Error(k.t, err, "%s was accepted", v)
	case err != nil:
		k.ruledBy(w, a.By)
	default:
		k.decided.Add(1)
	}
	return err == nil
}

// refuses checks that the session refused the operation, and that it did not fail for another reason.
func (k *sessionClient) refuses(err error) {
	k.figures.refused.Add(1)
	var refused *turn.Error
	if !errors.As(err, &refused) {
		assert.ErrorIs(k.t, err, client.ErrNotRunning)
		return
	}
	assert.Contains(k.t, []turn.Code{turn.CodeNotWaiting, turn.CodeToolDrift, turn.CodeInputInvalid}, refused.Code)
}

// ruledBy waits until a request whose decision was refused is settled, and checks that the refused decision was not
// applied.
func (k *sessionClient) ruledBy(w journal.RequestRecord, but string) {
	ctx, cancel := context.WithTimeout(k.context(), within)
	defer cancel()
	for {
		changed := k.store.Changed(ctx)
		requests, err := k.store.Requests(k.context(), w.Turn)
		require.NoError(k.t, err)
		i := slices.IndexFunc(requests, func(x journal.RequestRecord) bool { return x.ID == w.ID })
		if r := requests[i].Decision; r != nil {
			assert.NotEqual(k.t, but, r.By, "what was refused was applied")
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.Fail(k.t, "a decision was refused, and the wait is open still", "session %s: %+v", k.m.Session, w)
		}
	}
}

// answer answers the open question. If there is none, it checks that an answer is refused.
func (k *sessionClient) answer(o model.Op) {
	requests := k.open(briefly)
	i := slices.IndexFunc(requests, func(w journal.RequestRecord) bool { return w.Kind == turn.RequestQuestion })
	if i < 0 || o.Wrong {
		err := k.client.Answer(k.context(), client.AnswerInput{Session: k.m.Session, Question: "q99", Text: "What?"})
		k.refuses(err)
		return
	}
	k.replies(requests[i], o.Do)
}

func (k *sessionClient) replies(w journal.RequestRecord, do []string) {
	by := k.m.Person()
	text := model.Text(k.m.Session, by, do)
	err := k.client.Answer(k.context(),
		client.AnswerInput{Session: k.m.Session, Turn: w.Turn, Question: w.ID, By: by, Text: text})
	if err != nil {
		k.refuses(err)
		k.ruledBy(w, by)
		return
	}
	k.m.Answered(w.Turn, w.ID, text)
	k.figures.answered.Add(1)
}

// finish decides and answers the session's requests until none is left.
func (k *sessionClient) finish(allow bool) {
	for requests := k.settle(); len(requests) > 0; requests = k.settle() {
		for _, w := range requests {
			switch {
			case w.Kind == turn.RequestQuestion:
				k.replies(w, nil)
			case allow:
				k.rules(w, model.Allow, true)
			default:
				k.rules(w, model.Deny, false)
			}
		}
	}
	if len(k.m.Sent()) > 0 {
		require.Eventually(k.t, k.closed, within, 5*time.Millisecond, "session %s runs still", k.m.Session)
	}
}
