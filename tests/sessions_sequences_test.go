package tests

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/script"
	model "github.com/everturn/everturn/tests/session"
	"github.com/everturn/everturn/workflows/turn"
)

// sequences is how many generated sequences a run takes. The long run, in minutes:
//
//	go test ./tests -run TestGeneratedSequences -sequences 1000 -v
var sequences = flag.Int("sequences", 40, "generated sequences of what users do to a session")

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
	for _, ops := range remembered {
		lanes.Go(func() {
			for range 4 {
				g.play(t, ops, true)
			}
		})
	}
	lanes.Wait()
	t.Logf("%d sequences: %s", g.sequences.Load(), &g.figures)
	assert.NotZero(t, g.continued.Load(), "some turns went on in a new run")
}

// ground is where sequences take place: one server, one worker, one journal.
type ground struct {
	*rig
	figures
	server *mortal
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
	g := &ground{server: s, models: map[string]*model.Model{}, asked: map[string]bool{}}
	g.rig = newRig(t, g.watched(model.Agent()), askToTouch, func(c *config.Config) {
		c.Runtime.MaxSteps, c.Runtime.MaxToolCalls, c.Runtime.MaxConsecutiveErrors = 200, 200, 200
		c.LLM.RetryMax, c.Policy.OnModelError = 0, config.ErrorRetry // the turn itself asks again
	})
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
	g.play(loud{t, g.rig.t}, ops, allow)
}

// remembered are sequences that have failed.
var remembered = [][]model.Op{
	{ // a message for a turn that is settled already, in a workflow task that came to nothing
		{Kind: model.Burst, Do: []string{"look"}, After: true}, {Kind: model.Stop}, {Kind: model.Resend, Which: 1}, {Kind: model.Send},
	},
	{ // a message that comes after a stop, behind one that waits for a turn of its own, and before others
		{Kind: model.Send, Do: []string{"touch"}}, {Kind: model.Settle}, {Kind: model.Send, Do: []string{"look"}}, {Kind: model.Send, After: true}, {Kind: model.Stop},
		{Kind: model.Send, Do: []string{"touch", "look"}}, {Kind: model.Send, Do: []string{"look"}}, {Kind: model.Send, Do: []string{"touch"}}, {Kind: model.Stop}, {Kind: model.Send},
	},
	{ // messages that come with the first task of a continued run
		{Kind: model.Send, Do: []string{"look", "slow", "look", "touch", "look"}}, {Kind: model.Send, After: true}, {Kind: model.Decide, Verdict: model.Allow},
		{Kind: model.Send, Do: []string{"slow", "look", "ask", "look", "look"}}, {Kind: model.Send}, {Kind: model.Send, Do: []string{"touch"}}, {Kind: model.Decide, Verdict: model.Allow}, {Kind: model.Send},
	},
}

// play does a sequence and checks what came of it.
func (g *ground) play(t require.TestingT, ops []model.Op, allow bool) {
	k := g.talk(t, fmt.Sprintf("seq-%d", g.sequences.Add(1)), g.people())
	for _, o := range ops {
		k.do(o)
	}
	k.finish(allow)
	k.check(ops)
}

// loud says at once what is wrong. Of a sequence that fails one time in many, rapid itself shows the last try alone.
type loud struct {
	*rapid.T
	out *testing.T
}

// Errorf implements require.TestingT.
func (l loud) Errorf(format string, args ...any) {
	l.out.Logf(format, args...)
	l.T.Errorf(format, args...)
}
