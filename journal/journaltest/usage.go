package journaltest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

var usagePromises = []promise{
	{"every attempt that was paid is in the ledger once", usageOnce},
	{"an ended turn has the usage of all its attempts", usageOfFailures},
	{"a turn that ends in the middle of an inference has an estimate of its usage", usageOfAnOpenInference},
	{"an inference never exceeds a ceiling", ceilingsHold},
	{"a ceiling of 0 leaves nothing, and none allows everything", ceilingOfNothing},
	{"a reservation outlives its worker", reservationStays},
	{"two inferences share what is left of a tenant's budget", ceilingShared},
	{"a budget counts what its period has cost before", ceilingCountsBack},
	{"a session's budget counts its subagents, and theirs", ceilingOfATree},
	{"the ledger of usage equals the provider's own count", usageEqualsCount},
}

// perToken is a price of one millionth of a dollar for each token.
var perToken = &turn.Price{Rates: turn.Rates{Input: 1_000_000, CachedInput: 100_000, CacheWrite: 1_000_000,
	Output: 1_000_000}}

const perTokenUSD = turn.Dollar / 1_000_000

// usd returns the price of tokens.
func usd(tokens int64) *turn.USD {
	cost := turn.USD(tokens) * perTokenUSD
	return &cost
}

func (s *script) attemptUsage(step, attempt int, u turn.Usage) journal.AttemptUsage {
	return journal.AttemptUsage{Key: s.key(step), Attempt: attempt, Provider: "p", Model: "model", Usage: u, At: s.now()}
}

// reserve asks for input tokens and 100 output tokens, of which at least 10.
func (s *script) reserve(step, attempt int, input int64, b journal.Budget) (int64, *fleet.Refusal) {
	s.Helper()
	output, refusal, err := s.ReserveUsage(s.Context(), journal.ReserveInput{
		AttemptUsage: s.attemptUsage(step, attempt, turn.Usage{InputTokens: input}), Price: perToken, Output: 100, Least: 10,
		Budget: b,
	})
	require.NoError(s, err)
	return output, refusal
}

func (s *script) used() turn.Usage {
	s.Helper()
	return must(s.TurnUsage(s.Context(), s.turn))(s)
}

func usageOnce(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	failed := turn.Usage{InputTokens: 10, OutputTokens: 3, Estimated: true, Cost: 13 * perTokenUSD}
	for range 2 {
		require.NoError(t, s.RecordUsage(t.Context(), s.attemptUsage(1, 1, failed)))
	}
	s.start(1)
	in := s.settleInput(1, 2, "answer")
	in.Answer.Usage = turn.Usage{InputTokens: 20, CachedTokens: 5, CacheWriteTokens: 4, OutputTokens: 9,
		ReasoningTokens: 2,
		Cost:            29 * perTokenUSD}
	in.Provider = "p"
	settled := must(s.SettleInference(t.Context(), in))(t)
	assert.Equal(t, failed, settled.OtherUsage)
	assert.Equal(t, settled, must(s.SettleInference(t.Context(), in))(t))
	assert.Equal(t, failed.Add(in.Answer.Usage), s.used())
	late := s.settleInput(1, 1, "late")
	late.Answer.Usage = turn.Usage{InputTokens: 99}
	must(s.SettleInference(t.Context(), late))(t)
	assert.Equal(t, failed.Add(in.Answer.Usage), s.used(), "the first record of an attempt stands")
	rows := must(s.Usage(t.Context(), journal.UsageByModel, start))(t)
	assert.Equal(t, []journal.UsageRow{{Key: "p/model", Attempts: 2, Turns: 1, Usage: s.used()}}, rows)
	assert.Empty(t, must(s.Usage(t.Context(), journal.UsageByModel, s.at.Add(time.Hour)))(t))
	_, err := s.Usage(t.Context(), "color", start)
	require.Error(t, err)
	assert.ErrorIs(t, s.RecordUsage(t.Context(), s.attemptUsage(2, 1, failed)), journal.ErrNotFound)
}

func usageOfFailures(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.infer(1, "answer")
	s.start(2)
	unpriced := turn.Usage{InputTokens: 7, Unpriced: true, Estimated: true}
	require.NoError(t, s.RecordUsage(t.Context(), s.attemptUsage(2, 1, unpriced)))
	want := turn.Usage{InputTokens: 17, OutputTokens: 1, Unpriced: true, Estimated: true}
	assert.Equal(t, want, s.finish().Usage)
	require.NoError(t, s.RecordUsage(t.Context(), s.attemptUsage(2, 1, unpriced)), "the turn has ended")
}

func usageOfAnOpenInference(t *testing.T, open func() *journal.DB) {
	s := &script{T: t, DB: open(), session: "s", turn: "t1", at: start}
	in := s.beginInput()
	in.Config = must(json.Marshal(turn.Config{Provider: "p", Model: "model",
		Models: []turn.Model{{Provider: "p", Name: "model", Price: perToken}}}))(t)
	s.head = must(s.Begin(t.Context(), in))(t).Head
	s.infer(1, "answer")
	before := s.used()
	s.start(2)
	sent := journal.StreamInput{Key: s.key(2), Attempt: 1, PromptTokens: 40}
	require.NoError(t, s.AppendStream(t.Context(), sent))
	lost := s.start(2).Lost
	assert.Equal(t, journal.LostAttempt{Attempt: 1}, lost, "it was billed, although it has shown nothing")
	sent.Attempt, sent.Events = 2, []turn.Event{{Kind: turn.EventReasoningDelta, Text: "hmm", At: s.now()},
		{Kind: turn.EventTextDelta, Text: "eight by", At: s.now()}}
	require.NoError(t, s.AppendStream(t.Context(), sent))
	require.NoError(t, s.append(2, 2, "tes"))
	assert.Equal(t, before, s.used())
	stop := s.finishInput()
	stop.State, stop.Reason = turn.StateCancelled, turn.FinishCancelled
	want := before.Add(turn.Usage{InputTokens: 40, OutputTokens: 4, Estimated: true, Cost: *usd(44)})
	assert.Equal(t, want, must(s.Finish(t.Context(), stop))(t).Usage)
	assert.Equal(t, want, s.used())
	known := turn.Usage{InputTokens: 35, OutputTokens: 5, Cost: *usd(40)}
	for range 2 {
		require.NoError(t, s.RecordUsage(t.Context(), s.attemptUsage(2, 2, known)), "the worker knows more than the journal")
	}
	assert.Equal(t, before.Add(known), s.used())
	assert.Equal(t, before.Add(known), must(s.Turn(t.Context(), "t1"))(t).Usage)

	s.turn = "t2"
	s.begin()
	s.start(1)
	_, refusal := s.reserve(1, 1, 50, journal.Budget{Turn: usd(1000)})
	require.Nil(t, refusal)
	require.NoError(t, s.AppendStream(t.Context(), journal.StreamInput{Key: s.key(1), Attempt: 1, PromptTokens: 40}))
	reserved := s.used()
	stop = s.finishInput()
	stop.State = turn.StateCancelled
	assert.Equal(t, reserved, must(s.Finish(t.Context(), stop))(t).Usage, "a reservation stays")

	s.turn = "t3"
	s.begin()
	s.start(1)
	stop = s.finishInput()
	stop.State, stop.Counters = turn.StateCancelled, turn.Counters{}
	assert.Zero(t, must(s.Finish(t.Context(), stop))(t).Usage, "the provider has not begun to answer")
}

func ceilingsHold(t *testing.T, open func() *journal.DB) {
	tokens := int64(260)
	for name, budget := range map[string]journal.Budget{
		"turn": {Turn: usd(260)}, "turn's tokens": {TurnTokens: &tokens}, "subagents": {TurnTokens: ptr(tokens + 7), Turn: usd(1000),
			Subagents: turn.Spending{Tokens: 7}}, "session": {Session: usd(260)}, "tokens": {SessionTokens: &tokens},
		"day": {TenantDay: usd(260)}, "month": {TenantMonth: usd(260), TenantDay: usd(1000)},
	} {
		s := newScript(t, open(), "t1")
		s.start(1)
		output, refusal := s.reserve(1, 1, 50, budget)
		require.Nil(t, refusal, name)
		assert.EqualValues(t, 100, output)
		again, _ := s.reserve(1, 1, 50, budget)
		assert.Equal(t, output, again, "a repeated transaction reserves nothing more")
		assert.Equal(t, turn.Usage{InputTokens: 50, OutputTokens: 100, Estimated: true, Cost: *usd(150)}, s.used())
		in := s.settleInput(1, 1, "answer")
		in.Provider, in.Reserved, in.Answer.Usage = "p", true, turn.Usage{InputTokens: 50, OutputTokens: 90, Cost: *usd(140)}
		s.head = must(s.SettleInference(t.Context(), in))(t).Head
		s.start(2)
		output, refusal = s.reserve(2, 1, 50, budget)
		require.Nil(t, refusal, name)
		assert.EqualValues(t, 70, output, "%s: 120 are left", name)
		require.NoError(t, s.RecordUsage(t.Context(), s.attemptUsage(2, 1, turn.Usage{})), "it was not billed")
		assert.Equal(t, in.Answer.Usage, s.used())
		s.start(2)
		output, refusal = s.reserve(2, 2, 111, budget)
		require.NotNil(t, refusal, name)
		assert.Zero(t, output)
		assert.Contains(t, refusal.String(), string(refusal.Limit))
		output, _ = s.reserve(2, 2, 110, budget)
		assert.EqualValues(t, 10, output, name)
	}
}

func ceilingOfNothing(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	none := int64(0)
	for limit, b := range map[fleet.LimitName]journal.Budget{
		fleet.LimitTurnCost: {Turn: usd(0)}, fleet.LimitTurnTokens: {TurnTokens: &none},
		fleet.LimitSessionCost: {Session: usd(0)}, fleet.LimitSessionTokens: {SessionTokens: &none},
		fleet.LimitTenantCostPerDay: {TenantDay: usd(0)}, fleet.LimitTenantCostPerMonth: {TenantMonth: usd(0)},
	} {
		_, refusal := s.reserve(1, 1, 1, b)
		require.NotNil(t, refusal)
		assert.Equal(t, limit, refusal.Limit)
	}
	assert.Zero(t, s.used())
	output, refusal := s.reserve(1, 1, 1_000_000, journal.Budget{})
	assert.Nil(t, refusal)
	assert.EqualValues(t, 100, output)
}

func reservationStays(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	s.reserve(1, 1, 50, journal.Budget{Turn: usd(300)})
	s.start(1) // the worker died
	output, refusal := s.reserve(1, 2, 50, journal.Budget{Turn: usd(300)})
	require.Nil(t, refusal)
	assert.EqualValues(t, 100, output)
	s.start(1)
	_, refusal = s.reserve(1, 3, 50, journal.Budget{Turn: usd(300)})
	require.NotNil(t, refusal, "the provider may bill both attempts")
	assert.True(t, s.used().Estimated)
}

func ceilingShared(t *testing.T, open func() *journal.DB) {
	j := open()
	granted := make([]int64, 20)
	var wg sync.WaitGroup
	for i := range granted {
		s := begunFor(t, j, "acme", fmt.Sprint("s", i))
		s.start(1)
		wg.Go(func() {
			granted[i], _, _ = s.ReserveUsage(t.Context(), journal.ReserveInput{
				AttemptUsage: journal.AttemptUsage{Key: s.key(1), Attempt: 1, Usage: turn.Usage{InputTokens: 50}, At: start},
				Price:        perToken, Output: 100, Least: 10, Budget: journal.Budget{TenantDay: usd(1000),
					TenantMonth: usd(1000)},
			})
		})
	}
	wg.Wait()
	used := int64(0)
	for _, n := range granted {
		if n > 0 {
			used += 50 + n
		}
	}
	assert.EqualValues(t, 1000, used, "all of it, and no more: %v", granted)
	rows := must(j.Usage(t.Context(), journal.UsageByTenant, start))(t)
	require.Len(t, rows, 1)
	assert.Equal(t, *usd(1000), rows[0].Usage.Cost)
	other := begunFor(t, j, "other", "s")
	other.start(1)
	_, refusal := other.reserve(1, 1, 50, journal.Budget{TenantDay: usd(1000)})
	assert.Nil(t, refusal)
}

func ceilingCountsBack(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	s.start(1)
	for i, at := range []time.Time{start.AddDate(0, -1, 0), start.AddDate(0, 0, -1), start} {
		in := s.attemptUsage(1, i+1, turn.Usage{InputTokens: 100, Cost: *usd(100)})
		in.At = at
		require.NoError(t, s.RecordUsage(t.Context(), in))
		s.start(1)
	}
	_, refusal := s.reserve(1, 4, 50, journal.Budget{TenantDay: usd(150), TenantMonth: usd(1000)})
	require.NotNil(t, refusal)
	assert.EqualValues(t, *usd(100), refusal.Used)
	_, refusal = s.reserve(1, 4, 50, journal.Budget{TenantMonth: usd(250)})
	require.NotNil(t, refusal)
	assert.EqualValues(t, *usd(200), refusal.Used)
}

// ceilingOfATree reserves for a session, for its subagent, and for the subagent of that one.
func ceilingOfATree(t *testing.T, open func() *journal.DB) {
	s := newScript(t, open(), "t1")
	tokens := int64(300)
	for name, budget := range map[string]journal.Budget{"a": {Session: usd(300)}, "b": {SessionTokens: &tokens}} {
		s = &script{T: t, DB: s.DB, session: name, turn: "t of " + name, at: start}
		s.begin()
		s.infer(1, "look", subagentCall("1.0")) // 11 tokens that cost nothing
		cost := s.attemptUsage(1, 0, turn.Usage{InputTokens: 89, Cost: *usd(100)})
		require.NoError(t, s.RecordUsage(t.Context(), cost), "what is recorded before any budget counts")
		s.claimAgent(subagentCall("1.0"), journal.Subagent{})
		child := s.subagentOf("1.0")
		child.infer(1, "look", subagentCall("1.0"))
		child.claimAgent(subagentCall("1.0"), journal.Subagent{})
		grandchild := child.subagentOf("1.0")
		grandchild.start(1)
		output, refusal := grandchild.reserve(1, 1, 50, budget)
		require.Nil(t, refusal)
		assert.EqualValues(t, 100, output)
		child.start(2, turn.CallOutcome{CallID: "1.0", Outcome: turn.OutcomeOK, Text: "x"})
		_, refusal = child.reserve(2, 1, 50, budget)
		require.NotNil(t, refusal, name)
		assert.Contains(t, []fleet.LimitName{fleet.LimitSessionCost, fleet.LimitSessionTokens}, refusal.Limit)
		require.NoError(t, grandchild.RecordUsage(t.Context(), grandchild.attemptUsage(1, 1, turn.Usage{InputTokens: 10, Cost: *usd(10)})))
		output, refusal = child.reserve(2, 1, 50, budget)
		require.Nil(t, refusal, "what the grandchild has not used returns")
		assert.EqualValues(t, 100, output)
		all := must(s.SessionUsage(t.Context(), name))(t)
		assert.Equal(t, *usd(100 + 10 + 150), all.Cost)
		rows := must(s.Usage(t.Context(), journal.UsageBySession, start))(t)
		i := slices.IndexFunc(rows, func(r journal.UsageRow) bool { return r.Key == name })
		require.GreaterOrEqual(t, i, 0, "%+v", rows)
		assert.Equal(t, all, rows[i].Usage)
		assert.Equal(t, 3, rows[i].Turns)
	}
}

// provider is a model provider that counts what it bills.
type provider struct {
	random *rand.Rand
	billed map[string]turn.Usage // by model
	all    turn.Usage
}

// price returns a price for each model: small and large amounts, tiers, caches.
func (p *provider) price() *turn.Price {
	rates := func() turn.Rates {
		return turn.Rates{Input: p.random.Int64N(20_000_000), CachedInput: p.random.Int64N(2_000_000),
			CacheWrite: p.random.Int64N(25_000_000), Output: p.random.Int64N(100_000_000)}
	}
	price := &turn.Price{Rates: rates()}
	if p.random.IntN(3) == 0 {
		price.Tiers = []turn.Tier{{Above: p.random.Int64N(5000), Rates: rates()}}
	}
	return price
}

// bill returns the usage of a request with at most these tokens, which the provider bills.
func (p *provider) bill(model string, price *turn.Price, input, output int64) turn.Usage {
	u := turn.Usage{InputTokens: p.random.Int64N(input + 1), OutputTokens: p.random.Int64N(output + 1)}
	u.CachedTokens = p.random.Int64N(u.InputTokens + 1)
	u.CacheWriteTokens = p.random.Int64N(u.InputTokens - u.CachedTokens + 1)
	u.ReasoningTokens = p.random.Int64N(u.OutputTokens + 1)
	u.Cost = price.Cost(u)
	p.count(model, u)
	return u
}

func (p *provider) count(model string, u turn.Usage) {
	p.billed[model], p.all = p.billed[model].Add(u), p.all.Add(u)
}

// dearest returns the usage that costs the most.
func dearest(price *turn.Price, input, output int64) turn.Usage {
	u := turn.Usage{InputTokens: input, OutputTokens: output, Estimated: true}
	written := u
	written.CacheWriteTokens = input
	u.Cost = max(price.Cost(u), price.Cost(written))
	return u
}

func usageEqualsCount(t *testing.T, open func() *journal.DB) { CheckUsage(t, open(), 60) }

// CheckUsage runs random turns with random prices, caches, failures, killed workers, lost replies and repeated
// transactions, half of them under a budget, and compares the ledger with what the provider has billed, to the
// picodollar. The provider bills a worker that was killed under a budget all that the budget has reserved.
func CheckUsage(t *testing.T, j *journal.DB, turns int) {
	p := &provider{random: rand.New(rand.NewPCG(14, 14)), billed: map[string]turn.Usage{}}
	for i := range turns {
		s := &script{T: t, DB: j, session: fmt.Sprint("s", i%7), turn: fmt.Sprint("t", i), at: start}
		s.begin()
		before := p.all
		for step := 1; step <= 1+p.random.IntN(4); step++ {
			p.step(s, step)
		}
		want := p.all
		want.InputTokens -= before.InputTokens
		want.OutputTokens -= before.OutputTokens
		want.Cost -= before.Cost
		got := s.finish().Usage
		assert.Equal(t, []int64{want.InputTokens, want.OutputTokens, int64(want.Cost)},
			[]int64{got.InputTokens, got.OutputTokens, int64(got.Cost)}, "turn %d", i)
	}
	for _, row := range must(j.Usage(t.Context(), journal.UsageByModel, start))(t) {
		assert.Equal(t, p.billed[row.Key], row.Usage, row.Key)
	}
	// One more token fits into a budget of what was billed and its price, and not into less.
	s := newScript(t, j, "last")
	s.start(1)
	for _, short := range []turn.USD{1, 0} {
		most := p.all.Cost + perTokenUSD - short
		_, refusal, err := s.ReserveUsage(t.Context(), journal.ReserveInput{
			AttemptUsage: s.attemptUsage(1, 1, turn.Usage{}), Price: perToken, Output: 1, Least: 1,
			Budget: journal.Budget{TenantDay: &most, TenantMonth: &most}})
		require.NoError(t, err)
		assert.Equal(t, short > 0, refusal != nil, "short by %d", short)
	}
}

// step runs an inference with random failures, as the activity does.
func (p *provider) step(s *script, step int) {
	model, price := fmt.Sprint("m", p.random.IntN(3)), p.price()
	for {
		in := s.startInput(step)
		in.Model = model
		started := must(s.StartInference(s.Context(), in))(s)
		s.head = started.Base
		used := journal.AttemptUsage{Key: s.key(step), Attempt: started.Attempt, Provider: "p", Model: model, At: s.now()}
		input, output, reserved := p.random.Int64N(10_000), int64(500), p.random.IntN(2) == 0
		if reserved {
			ask := journal.ReserveInput{AttemptUsage: used, Price: price, Output: output, Least: 1,
				Budget: journal.Budget{TenantMonth: usd(1 << 40), TenantDay: usd(1 << 40)}}
			ask.Usage.InputTokens = input
			var err error
			output, _, err = s.ReserveUsage(s.Context(), ask)
			require.NoError(s, err)
		}
		switch p.random.IntN(5) {
		case 4: // the worker is killed
			if reserved {
				p.count("p/"+model, dearest(price, input, output))
			}
		case 0: // the provider refuses the request
			require.NoError(s, s.RecordUsage(s.Context(), used))
		case 1: // the stream breaks off
			used.Usage = p.bill("p/"+model, price, input, output)
			for range 1 + p.random.IntN(2) {
				require.NoError(s, s.RecordUsage(s.Context(), used))
			}
		default:
			settle := s.settleInput(step, started.Attempt, "answer")
			settle.Provider, settle.Model, settle.Reserved = "p", model, reserved
			settle.Answer.Usage = p.bill("p/"+model, price, input, output)
			for range 1 + p.random.IntN(2) { // the reply may be lost
				s.head = must(s.SettleInference(s.Context(), settle))(s).Head
			}
			return
		}
	}
}
