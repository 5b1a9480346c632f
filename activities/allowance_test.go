package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestTreesKeepToTheirMessagesLimits plays 1,000 messages whose models call tools and subagents at random, inline and
// in the background, and whose answers arrive in any order. Begin, BeginSubagent, SettleSubagent, Finish, the journal
// and the rules of package turn are the real ones; the test counts for itself. Nothing that comes of a message exceeds
// the message's limits, or has a tool that it did not have.
func TestTreesKeepToTheirMessagesLimits(t *testing.T) {
	t.Parallel()
	const trees, groups = 1000, 4
	sums := make([]forestSum, groups)
	t.Run("trees", func(t *testing.T) {
		for g := range groups {
			t.Run(fmt.Sprint(g), func(t *testing.T) {
				t.Parallel()
				j, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), sqlite.Options{Synchronous: "normal"})
				require.NoError(t, err)
				defer j.Close()
				a := newForester(t, j)
				for seed := g; seed < trees && !t.Failed(); seed += groups {
					sums[g].add(plantTree(t, a, j, uint64(seed)))
				}
			})
		}
	})
	var sum forestSum
	for _, s := range sums {
		sum.add(s)
	}
	t.Logf("%+v", sum)
	assert.Greater(t, sum.inline, trees/10)
	assert.Greater(t, sum.background, trees/10)
	assert.Greater(t, sum.answers, trees/10, "answers begin turns")
	assert.Greater(t, sum.kept, trees/20, "answers are kept")
	assert.Greater(t, sum.stopped, trees/100)
}

// forestSum counts what happened in trees.
type forestSum struct{ turns, inline, background, answers, kept, stopped int }

func (s *forestSum) add(o forestSum) {
	s.turns, s.inline, s.background = s.turns+o.turns, s.inline+o.inline, s.background+o.background
	s.answers, s.kept, s.stopped = s.answers+o.answers, s.kept+o.kept, s.stopped+o.stopped
}

// shelved is a journal with five published tools.
type shelved struct{ Journal }

func (shelved) OfferedBy(context.Context, map[string]string) ([]turn.Catalogue, error) {
	c := turn.Catalogue{Server: "x", Hash: "h"}
	for i := range 5 {
		id := fmt.Sprintf("mcp/x/t%d", i)
		c.Tools = append(c.Tools, turn.Descriptor{ID: id, Wire: turn.WireName(id), Hash: id})
	}
	return []turn.Catalogue{c}, nil
}

func newForester(t *testing.T, j *journal.DB) *Activities {
	priced := func(string, string) ([]turn.Model, error) {
		return []turn.Model{{Name: "m", Mode: turn.ModeNative, Price: &turn.Price{}}}, nil
	}
	l := turn.DefaultLimits()
	agent := func(id string, agents ...string) turn.Agent {
		return turn.Agent{ID: id, Agents: agents, MaxSteps: l.MaxSteps, TurnTimeout: l.TurnTimeout}
	}
	a, err := New(Options{Journal: shelved{j}, Tools: &counted{},
		Agents: []turn.Agent{agent("root", "a", "b"), agent("a", "b"), agent("b", "a")},
		Settings: Settings{Servers: []string{"x"}, Policy: turn.Policy{Allow: []string{"*"}}, Models: priced, Limits: l,
			MaxDepth: 2}})
	require.NoError(t, err)
	return a
}

// tree is a message, and all that comes of it.
type tree struct {
	*testing.T
	*Activities
	journal *journal.DB
	rng     *rand.Rand
	session string
	message workflows.Message
	root    turn.Config
	limits  turn.Limits
	used    turn.Spending
	work    []workflows.CallInput // subagents in the background that have not begun
	arrived []workflows.Message   // answers that no turn has
	nested  bool
	sum     forestSum
}

// plantTree sends a message with random limits and tools, and lets everything that comes of it happen.
func plantTree(t *testing.T, a *Activities, j *journal.DB, seed uint64) forestSum {
	rng := rand.New(rand.NewPCG(seed, 24))
	f := &tree{T: t, Activities: a, journal: j, rng: rng, session: fmt.Sprintf("s%d", seed)}
	f.message = workflows.Message{ID: "m", Text: "x"}
	if rng.IntN(2) == 0 {
		for i := range 1 + rng.IntN(3) {
			f.message.Tools = append(f.message.Tools, fmt.Sprintf("mcp/x/t%d", i))
		}
		f.message.Tools = append(f.message.Tools, "agent/a")
	}
	f.limits = turn.DefaultLimits()
	f.limits.MaxSteps, f.limits.MaxToolCalls = 1+rng.IntN(30), rng.IntN(40)
	f.limits.TurnTimeout = time.Duration(1+rng.IntN(100)) * time.Second
	f.limits.MaxTokens = int64(rng.IntN(2)) * (1 + rng.Int64N(100_000))
	f.limits.MaxCostUSD = float64(rng.IntN(2)*(1+rng.IntN(100_000))) / 100_000
	timeout := f.limits.TurnTimeout.String()
	f.used.Time += f.play(f.session, "", f.message, &workflows.LimitsRequest{MaxSteps: &f.limits.MaxSteps,
		MaxToolCalls: &f.limits.MaxToolCalls, MaxTokens: &f.limits.MaxTokens, MaxCostUSD: &f.limits.MaxCostUSD,
		TurnTimeout: &timeout}, turn.Caller{})
	for len(f.work)+len(f.arrived) > 0 && !t.Failed() {
		switch {
		case rng.IntN(20) == 0:
			require.NoError(t, must(j.StopSubagents(t.Context(), f.session)))
			f.sum.stopped++
		case len(f.work) > 0 && (len(f.arrived) == 0 || rng.IntN(2) == 0):
			f.workInBackground()
		default:
			f.used.Time += f.play(f.session, "b", f.takeAnswer(), forgedLimits(), turn.Caller{})
		}
	}
	f.check(seed)
	return f.sum
}

func must[V any](_ V, err error) error { return err }

// forgedLimits are those of a client that wants more for an answer than is left.
func forgedLimits() *workflows.LimitsRequest {
	steps, calls := 1000, 1000
	return &workflows.LimitsRequest{MaxSteps: &steps, MaxToolCalls: &calls}
}

func (f *tree) takeAnswer() workflows.Message {
	m := f.arrived[0]
	f.arrived = f.arrived[1:]
	m.Tools = []string{"*"} // forged as well
	return m
}

func (f *tree) check(seed uint64) {
	f.Helper()
	assert.LessOrEqual(f, f.used.Steps, f.limits.MaxSteps, "steps of tree %d", seed)
	assert.LessOrEqual(f, f.used.ToolCalls, f.limits.MaxToolCalls, "calls of tree %d", seed)
	assert.LessOrEqual(f, f.used.Time, f.limits.TurnTimeout, "time of tree %d", seed)
	if f.limits.MaxTokens > 0 {
		assert.LessOrEqual(f, f.used.Tokens, f.limits.MaxTokens, "tokens of tree %d", seed)
	}
	if f.limits.MaxCost() != nil {
		assert.LessOrEqual(f, f.used.Cost, *f.limits.MaxCost(), "cost of tree %d", seed)
	}
}

// play takes a turn from its message to its end, and returns its working time.
func (f *tree) play(session, agent string, m workflows.Message, limits *workflows.LimitsRequest,
	caller turn.Caller) time.Duration {
	f.sum.turns++
	p := &played{tree: f, session: session, id: fmt.Sprintf("%s-t%d", f.session, f.sum.turns)}
	begun, err := f.Begin(f.Context(), workflows.BeginInput{Limits: limits, BeginInput: turn.BeginInput{Session: session,
		Turn: p.id, WorkflowID: session, RunID: p.id, Agent: agent, Caller: caller, Message: m}})
	require.NoError(f, err)
	if begun.Kept {
		f.sum.kept++
		return 0
	}
	require.Nil(f, begun.Duplicate)
	p.cfg, p.head = begun.Config, begun.Head
	f.checkConfig(p.cfg, m)
	for turn.CheckInferenceLimits(p.cfg.Limits, p.c) == nil && p.step() {
	}
	_, err = f.Finish(f.Context(), workflows.FinishInput{FinishInput: turn.FinishInput{Session: session, Turn: p.id,
		Result: turn.Result{State: turn.StateCompleted, Reason: turn.FinishAnswered}, Counters: p.c}})
	require.NoError(f, err)
	return p.c.Busy
}

// checkConfig compares what a turn may do with what its message could.
func (f *tree) checkConfig(cfg turn.Config, m workflows.Message) {
	f.Helper()
	if m.ID == f.message.ID {
		f.root = cfg
		return
	}
	for _, t := range cfg.Tools {
		_, has := f.root.Find(t.ID)
		named := strings.HasPrefix(t.ID, turn.AgentTools) &&
			(len(f.message.Tools) == 0 || slices.Contains(f.message.Tools, t.ID))
		assert.True(f, has || named, "a turn has %s, which its message has not", t.ID)
	}
	if cfg.Answers > 0 {
		f.sum.answers++
		assert.Equal(f, f.root.Agent, cfg.Agent)
	}
}

// workInBackground plays the turn of a subagent in the background, whose answer then arrives.
func (f *tree) workInBackground() {
	in := f.work[0]
	f.work = f.work[1:]
	f.nested = true
	f.used.Time += f.subagent(in, "x")
	f.nested = false
	in.Deliver = true
	res, err := f.SettleSubagent(f.Context(), in)
	require.NoError(f, err)
	f.arrived = append(f.arrived, *res.Message)
}

// subagent plays the turn of a subagent.
func (f *tree) subagent(in workflows.CallInput, text string) time.Duration {
	session := turn.SubagentSession(in.Turn, in.Call.ID)
	return f.play(session, strings.TrimPrefix(in.Tool.ID, turn.AgentTools), workflows.Message{ID: session, Text: text}, nil,
		turn.Caller{Session: in.Session, Turn: in.Turn, Call: in.Call.ID})
}

// played is a turn that is being played, as workflows.Turn does.
type played struct {
	*tree
	session, id string
	cfg         turn.Config
	c           turn.Counters
	head        turn.Head
	results     []turn.CallOutcome
}

// step makes an inference and the calls that it asks for. It reports whether another step follows.
func (p *played) step() bool {
	l, c := p.cfg.Limits, &p.c
	c.Step, c.Spent, p.used.Steps = c.Step+1, c.Spent+1, p.used.Steps+1
	c.Busy += p.some(l.TurnTimeout - c.Taken().Time)
	left := l.Left(c.Taken())
	usage := turn.Usage{InputTokens: p.rng.Int64N(1000)}
	if left.Tokens != nil {
		usage.InputTokens = p.rng.Int64N(*left.Tokens/4 + 1)
	}
	if left.Cost != nil {
		usage.Cost = turn.USD(p.rng.Int64N(int64(*left.Cost)/4 + 1))
	}
	c.Usage = c.Usage.Add(usage)
	p.used.Tokens, p.used.Cost = p.used.Tokens+usage.Total(), p.used.Cost+usage.Cost
	calls := p.choose()
	p.infer(usage, calls)
	if len(calls) == 0 || turn.CheckCallLimits(l, *c, len(calls)) != nil {
		return false
	}
	p.run(calls)
	return true
}

// some returns a random part of a time; all of it now and then.
func (p *played) some(of time.Duration) time.Duration {
	if p.rng.IntN(10) == 0 {
		return of
	}
	return time.Duration(p.rng.Int64N(int64(of)/4 + 1))
}

// choose picks the calls of a step: tools and subagents that the turn has.
func (p *played) choose() (calls []turn.ToolCall) {
	promptConfig, err := p.frozen.PromptConfig(p.Context(), p.cfg.PromptConfig)
	require.NoError(p, err)
	for i := range p.rng.IntN(5) {
		tool := p.cfg.Tools[p.rng.IntN(len(p.cfg.Tools))]
		arguments := map[string]any{"task": "x"}
		d, _ := promptConfig.Find(tool.ID)
		if p.rng.IntN(2) == 0 && strings.Contains(string(d.Schema), `"background"`) {
			arguments["background"] = true
		}
		raw, _ := json.Marshal(arguments)
		calls = append(calls, turn.ToolCall{ID: fmt.Sprintf("%d.%d", p.c.Step, len(calls)), WireID: fmt.Sprint(i),
			Tool: tool.ID, Arguments: string(raw)})
	}
	return calls
}

// infer writes a step's inference to the journal. Answers that have arrived may join the turn.
func (p *played) infer(usage turn.Usage, calls []turn.ToolCall) {
	key := journal.StepKey{Turn: p.id, Step: p.c.Step}
	var joined []workflows.Message
	if p.session == p.tree.session && len(p.arrived) > 0 && p.rng.IntN(3) == 0 {
		joined = append(joined, p.takeAnswer())
	}
	_, err := p.journal.StartInference(p.Context(), journal.StartInference{Session: p.session, Key: key, Expect: p.head,
		Outcomes: p.results, Messages: joined, Model: "m", At: time.Now()})
	require.NoError(p, err)
	answer := turn.Completion{Text: "x", Usage: usage, FinishReason: "stop"}
	for _, c := range calls {
		answer.ToolCalls = append(answer.ToolCalls, turn.ToolCall{WireID: c.WireID, Tool: c.Tool, Arguments: c.Arguments})
	}
	settled, err := p.journal.SettleInference(p.Context(), journal.SettleInference{Session: p.session, Key: key, Attempt: 1,
		Message: turn.Message{Text: "x", ToolCalls: calls}, Answer: answer, At: time.Now()})
	require.NoError(p, err)
	p.head = settled.Head
}

// run makes the calls of a step.
func (p *played) run(calls []turn.ToolCall) {
	proposals := p.authorizer.Proposed(calls)
	inline, background := 0, 0
	for i, c := range proposals {
		switch {
		case proposals[i].Background:
			background++
		case strings.HasPrefix(c.Tool, turn.AgentTools):
			inline++
		}
	}
	shares := turn.SharesOf(p.cfg.Limits, p.c, len(calls), inline, background)
	p.results = nil
	var granted turn.Spending
	before := p.c.Granted
	for range background {
		p.c.Granted = p.c.Granted.Add(shares.Background.All())
	}
	var longest time.Duration
	for _, c := range proposals {
		p.used.ToolCalls++
		out := turn.CallOutcome{CallID: c.ID, Outcome: turn.OutcomeOK, Text: "done"}
		share := shares.Inline
		if c.Background {
			share = shares.Background
		}
		switch {
		case !strings.HasPrefix(c.Tool, turn.AgentTools):
			longest = max(longest, p.some(turn.Remaining(p.cfg.Limits, p.c)-time.Second))
		case !share.Enough():
			out.Outcome, out.Text = turn.OutcomeDenied, "nothing is left"
		default:
			out = turn.CallOutcome{CallID: c.ID}
			longest = max(longest, p.beginSubagent(c, share))
			if c.Background {
				granted = granted.Add(share.All())
			}
		}
		p.results = append(p.results, out)
	}
	p.c.Granted = before.Add(granted)
	p.c.ToolCalls += len(calls)
	p.c.Busy += longest
	for !p.nested && len(p.work) > 0 && p.rng.IntN(3) == 0 {
		p.workInBackground()
	}
}

// beginSubagent calls a subagent, and returns the working time of an inline one.
func (p *played) beginSubagent(c turn.ToolCall, share turn.Allowance) time.Duration {
	tool, _ := p.cfg.Find(c.Tool)
	in := workflows.CallInput{Session: p.session, Turn: p.id, Step: p.c.Step, Call: c, Tool: tool,
		PromptConfig: p.cfg.PromptConfig, Attempt: 1, Granted: share}
	begun, err := p.BeginSubagent(p.Context(), in)
	require.NoError(p, err)
	require.Empty(p, begun.Outcome)
	assert.Equal(p, share, begun.Granted)
	if c.Background {
		p.sum.background++
		p.work = append(p.work, in)
		in.Started = true
		_, err = p.SettleSubagent(p.Context(), in)
		require.NoError(p, err)
		return 0
	}
	p.sum.inline++
	was := p.nested
	p.nested = true
	busy := p.subagent(in, "x")
	p.nested = was
	receipt, err := p.SettleSubagent(p.Context(), in)
	require.NoError(p, err)
	used := *receipt.Used
	used.Time = 0
	p.c.Subagents = p.c.Subagents.Add(used)
	return busy
}
