package tests

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"pgregory.net/rapid"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/sessions"
	kept "github.com/everturn/everturn/tests/replay"
	"github.com/everturn/everturn/tests/script"
	model "github.com/everturn/everturn/tests/session"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// sequences is how many generated sequences a run takes. The long run, in minutes:
//
//	go test ./tests -run TestGeneratedSequences -sequences 1000 -v
var sequences = flag.Int("sequences", 60, "generated sequences of what users do to a session")

const (
	// sequenceLanes is how many sequences are under way at once: they mostly wait for one another's processes.
	sequenceLanes = 12
	// soonContinued is after how many events a run goes on in a new one: after some four steps.
	soonContinued = 40
)

// TestGeneratedSequences does to real sessions what rapid makes up, and asks the model of a session whether everything
// that is known afterwards fits. Runs go on in new ones all the time.
func TestGeneratedSequences(t *testing.T) {
	t.Parallel()
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	require.NoError(t, flag.Set("rapid.checks", fmt.Sprint((*sequences+sequenceLanes-1)/sequenceLanes)))
	g := newGround(t)
	var lanes sync.WaitGroup
	for range sequenceLanes {
		lanes.Go(func() { rapid.Check(t, g.sequence) })
	}
	lanes.Wait()
	t.Logf("%d sequences: %s", g.sequences.Load(), &g.figures)
	assert.NotZero(t, g.continued.Load(), "some turns went on in a new run")
}

// ground is where sequences take place: one server, one worker, one journal.
type ground struct {
	*rig
	figures
	mu     sync.Mutex
	models map[string]*model.Model
	asked  map[string]bool // sessions with the messages that the provider was sent
}

// figures count what happened, over all sequences.
type figures struct {
	sequences, messages, resent, decided, answered, refused, stops, turns, waits, effects, runs, continued, followed atomic.Int64
}

func (f *figures) String() string {
	return fmt.Sprintf("%d messages accepted and %d sent again, %d decisions and %d answers accepted, %d refused, %d stops; "+
		"%d turns, %d waits, %d effects; %d runs replayed, %d of them continued in the middle of a turn and %d with the next one",
		f.messages.Load(), f.resent.Load(), f.decided.Load(), f.answered.Load(), f.refused.Load(), f.stops.Load(),
		f.turns.Load(), f.waits.Load(), f.effects.Load(), f.runs.Load(), f.continued.Load(), f.followed.Load())
}

func newGround(t *testing.T) *ground {
	s := newMortal(t, "", soonContinued)
	g := &ground{models: map[string]*model.Model{}, asked: map[string]bool{}}
	g.rig = newRig(t, g.watched(model.Agent()), askToTouch, func(c *config.Config) { c.Runtime.MaxSteps, c.Runtime.MaxToolCalls = 200, 200 })
	s.serves(g.rig)
	g.work(
		engine.WithTool(model.TouchTool, "Touches.", g.touch, engine.Risk(turn.RiskHigh)),
		engine.WithTool(model.LookTool, "Looks.", func(_ context.Context, in model.Arguments) (string, error) { return "seen", nil }, engine.Risk(turn.RiskLow)),
	)
	return g
}

// watched notes which messages the model is shown.
func (g *ground) watched(inner script.Script) script.Script {
	return script.Func(func(r script.Request) script.Reply {
		g.mu.Lock()
		for _, m := range r.Chat.Messages {
			if head, _, ok := strings.Cut(m.Content, ": "); ok && m.Role == "user" {
				g.asked[head] = true
			}
		}
		g.mu.Unlock()
		return inner.Reply(r)
	})
}

func (g *ground) touch(_ context.Context, in model.Arguments) (string, error) {
	name, _, _ := strings.Cut(in.Text, " ")
	g.mu.Lock()
	m := g.models[name]
	g.mu.Unlock()
	m.Touched(in.Text)
	g.effects.Add(1)
	return "touched", nil
}

// sequence does one generated sequence and checks what came of it.
func (g *ground) sequence(t *rapid.T) {
	ops := model.Ops().Draw(t, "ops")
	allow := rapid.Bool().Draw(t, "allow in the end")
	k := &talk{ground: g, t: t, m: model.New(fmt.Sprintf("seq-%d", g.sequences.Add(1))), client: g.people(), over: map[string]bool{}, starts: map[string]bool{}}
	g.mu.Lock()
	g.models[k.m.Session] = k.m
	g.mu.Unlock()
	for _, o := range ops {
		k.do(o)
	}
	k.finish(allow)
	assert.Empty(t, k.m.Check(k.evidence()), "session %s after %v", k.m.Session, ops)
	for start := range k.starts {
		k.replay(start)
	}
	g.rig.model.Drain()
}

// talk is one session with the people who talk to it.
type talk struct {
	*ground
	t      *rapid.T
	m      *model.Model
	client *sessions.Client
	over   map[string]bool // messages whose turn is over
	mu     sync.Mutex
	starts map[string]bool // the runs that messages have started
}

func (k *talk) do(o model.Op) {
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
			require.ErrorIs(k.t, err, sessions.ErrNotRunning)
		}
	case model.Settle:
		k.settle()
	case model.Pause:
		timer := time.NewTimer(o.Wait) // people take their time: this is what is tested, nothing is waited for
		<-timer.C
	}
}

func (k *talk) context() context.Context { return k.rig.t.Context() }

func (k *talk) send(o model.Op, n int) {
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

// hand sends a message. The session always takes it.
func (k *talk) hand(s model.Sent) bool {
	a, err := k.client.Send(k.context(), sessions.Request{Session: k.m.Session,
		Message: workflows.Message{ID: s.ID, Text: model.Text(k.m.Session, s.ID, s.Do), After: s.After}})
	if !assert.NoError(k.t, err, "sending %s", s.ID) {
		return false
	}
	if !a.Joined {
		k.mu.Lock()
		k.starts[a.Turn] = true
		k.mu.Unlock()
	}
	return true
}

// briefly is how long somebody who wants to decide waits for something to decide about.
const briefly = 100 * time.Millisecond

// open waits for something that people have to say, at most for so long, and for no longer than the session has
// anything to do. What was decided already and is not recorded yet is not open.
func (k *talk) open(within time.Duration) []journal.WaitRecord {
	ctx, cancel := context.WithTimeout(k.context(), within)
	defer cancel()
	for {
		changed := k.store.Changed(ctx)
		waits, err := k.store.Waiting(k.context(), k.m.Session, 100)
		require.NoError(k.t, err)
		waits = slices.DeleteFunc(waits, func(w journal.WaitRecord) bool {
			return k.m.HasDecided(w.Turn, w.ID) || k.m.HasAnswered(w.Turn, w.ID)
		})
		if len(waits) > 0 || k.idle() {
			return waits
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// idle reports whether every message has a turn that is over.
func (k *talk) idle() bool {
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

// settle waits until the session needs people, or nothing.
func (k *talk) settle() []journal.WaitRecord {
	waits := k.open(20 * time.Second)
	if len(waits) == 0 && !k.idle() {
		require.Fail(k.t, "the session is stuck", "%s:\n%s", k.m.Session, k.state())
	}
	return waits
}

// state tells what became of each message, for a test that failed.
func (k *talk) state() string {
	var b strings.Builder
	for _, s := range k.m.Sent() {
		rec, err := k.store.Delivered(k.context(), k.m.Session, s.ID)
		fmt.Fprintf(&b, "%s: %s in %.8s %v\n", s.ID, rec.State, rec.ID, err)
	}
	for start := range k.starts {
		for run := start; run != ""; {
			events := k.eventsOf(k.context(), k.m.Session, run)
			fmt.Fprintf(&b, "run %.8s:", run)
			for _, e := range events {
				fmt.Fprintf(&b, " %s", strings.ToLower(strings.TrimPrefix(e.EventType.String(), "EVENT_TYPE_")))
			}
			fmt.Fprintln(&b)
			run = k.next(events)
		}
	}
	return b.String()
}

// decide decides about the call that has waited longest. Where none waits, nothing can be decided.
func (k *talk) decide(v model.Verdict) {
	waits := k.open(briefly)
	i := slices.IndexFunc(waits, func(w journal.WaitRecord) bool { return w.Kind == turn.WaitApproval })
	if i < 0 {
		_, err := k.client.Approve(k.context(), k.m.Session, workflows.Approval{Call: "1.0", Allow: true, ArgumentsHash: "none"})
		k.refuses(err)
		return
	}
	w := waits[i]
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

// rules sends one decision and reports whether it was accepted. A right one is refused only where the wait is over
// without it.
func (k *talk) rules(w journal.WaitRecord, v model.Verdict, allow bool) bool {
	d := k.m.Deciding(model.Decision{Turn: w.Turn, Call: w.ID, Arguments: w.Arguments, Verdict: v, Allow: allow})
	a := workflows.Approval{Turn: w.Turn, Call: w.ID, Allow: allow, ArgumentsHash: w.ArgumentsHash, By: d.By}
	switch v {
	case model.WrongHash:
		a.ArgumentsHash = strings.Repeat("0", len(a.ArgumentsHash))
	case model.WrongCall:
		a.Call = "99.0"
	case model.WrongTurn:
		a.Turn = "another"
	case model.AlwaysCall:
		a.Always = turn.AlwaysCall
	case model.AlwaysTool, model.DenyAlways:
		a.Always = turn.AlwaysTool
	}
	_, err := k.client.Approve(k.context(), k.m.Session, a)
	k.m.Decided(d, err == nil)
	if v.Wrong() {
		k.refuses(err)
	} else if err != nil {
		k.refuses(err)
		k.ruledBy(w, d.By)
	} else {
		k.decided.Add(1)
	}
	return err == nil
}

// refuses checks that something was refused by the session, and not by an accident.
func (k *talk) refuses(err error) {
	k.figures.refused.Add(1)
	var refused *turn.Error
	if !errors.As(err, &refused) {
		assert.ErrorIs(k.t, err, sessions.ErrNotRunning)
		return
	}
	assert.Contains(k.t, []turn.Code{turn.CodeNotWaiting, turn.CodeToolDrift, turn.CodeConfigInvalid}, refused.Code)
}

// ruledBy waits until a wait is over that somebody found closed.
func (k *talk) ruledBy(w journal.WaitRecord, but string) {
	ctx, cancel := context.WithTimeout(k.context(), 15*time.Second)
	defer cancel()
	for {
		changed := k.store.Changed(ctx)
		waits, err := k.store.Waits(k.context(), w.Turn)
		require.NoError(k.t, err)
		i := slices.IndexFunc(waits, func(x journal.WaitRecord) bool { return x.ID == w.ID })
		if r := waits[i].Ruling; r != nil {
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

// answer answers the open question. Where there is none, nothing can be answered.
func (k *talk) answer(o model.Op) {
	waits := k.open(briefly)
	i := slices.IndexFunc(waits, func(w journal.WaitRecord) bool { return w.Kind == turn.WaitQuestion })
	if i < 0 || o.Wrong {
		_, err := k.client.Answer(k.context(), k.m.Session, workflows.Answer{Question: "q99", Text: "What?"})
		k.refuses(err)
		return
	}
	k.replies(waits[i], o.Do)
}

func (k *talk) replies(w journal.WaitRecord, do []string) {
	r := k.m.Answering(model.Reply{Turn: w.Turn, Question: w.ID})
	_, err := k.client.Answer(k.context(), k.m.Session, workflows.Answer{
		Turn: w.Turn, Question: w.ID, By: r.By, Text: model.Text(k.m.Session, strings.ReplaceAll(r.By, " ", ""), do)})
	k.m.Answered(r, err == nil)
	if err != nil {
		k.refuses(err)
		k.ruledBy(w, r.By)
		return
	}
	k.figures.answered.Add(1)
}

// finish says whatever the session waits for until it waits for nothing.
func (k *talk) finish(allow bool) {
	for waits := k.settle(); len(waits) > 0; waits = k.settle() {
		for _, w := range waits {
			switch {
			case w.Kind == turn.WaitQuestion:
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

func (k *talk) closed() bool {
	d, err := k.rig.client.DescribeWorkflowExecution(k.context(), k.m.Session, "")
	require.NoError(k.t, err)
	return d.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// evidence collects what is known of the session.
func (k *talk) evidence() model.Evidence {
	ctx := k.context()
	e := model.Evidence{Waits: map[string][]journal.WaitRecord{}, Calls: map[string][]journal.CallRecord{},
		Chunks: map[string][]turn.Chunk{}, Asked: map[string]bool{}}
	if len(k.m.Sent()) == 0 {
		return e
	}
	rec, err := k.store.Session(ctx, k.m.Session)
	require.NoError(k.t, err)
	e.Messages, err = k.store.Messages(ctx, k.m.Session, 1, rec.Head.Seq)
	require.NoError(k.t, err)
	require.Len(k.t, e.Messages, int(rec.Head.Seq))
	e.Turns, err = k.store.Turns(ctx, k.m.Session)
	require.NoError(k.t, err)
	for _, record := range e.Turns {
		e.Waits[record.ID], err = k.store.Waits(ctx, record.ID)
		require.NoError(k.t, err)
		e.Calls[record.ID], err = k.store.Calls(ctx, record.ID)
		require.NoError(k.t, err)
		e.Chunks[record.ID], err = k.store.Chunks(ctx, record.ID, -1, 10_000)
		require.NoError(k.t, err)
		k.turns.Add(1)
		k.figures.waits.Add(int64(len(e.Waits[record.ID])))
	}
	k.ground.mu.Lock()
	defer k.ground.mu.Unlock()
	for _, s := range k.m.Sent() {
		e.Asked[s.ID] = k.asked[k.m.Session+" "+s.ID]
	}
	return e
}

// replay replays a run and those that it went on in, on the code as it is.
func (k *talk) replay(run string) {
	for run != "" {
		events := k.eventsOf(k.context(), k.m.Session, run)
		require.NoError(k.t, kept.Run(events), "replaying run %s of %s", run, k.m.Session)
		k.runs.Add(1)
		run = k.next(events)
	}
}

// next is the run that another one has gone on in.
func (k *talk) next(events []*historypb.HistoryEvent) string {
	a := events[len(events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes()
	if a == nil {
		return ""
	}
	if strings.Contains(string(a.Input.Payloads[0].Data), `"continued"`) {
		k.continued.Add(1)
	} else {
		k.followed.Add(1)
	}
	return a.NewExecutionRunId
}
