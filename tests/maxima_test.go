package tests

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The long run of TestNoMaximumIsExceeded is `make maxima`.
var (
	maxima     = flag.Int("maxima", 24, "messages of TestNoMaximumIsExceeded, half of them with subagents")
	maximaSeed = flag.Uint64("maxima-seed", 1, "seed of TestNoMaximumIsExceeded")
)

// biller is a provider that bills each request that it begins to answer, also if the client dies meanwhile. It keeps to
// the limit of output tokens and often uses all of it, and fails, cuts streams and calls tools and subagents at random.
type biller struct {
	prices map[string]turn.Price

	mu     sync.Mutex
	rng    *rand.Rand
	billed map[string]turn.Usage // by errand
}

// billedOutput is the models' own limit of output tokens.
const billedOutput = 3000

var errand = regexp.MustCompile(`Errand \d+`)

func (b *biller) reply(q fakellm.Request) fakellm.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := string(errand.Find(q.Body))
	n := b.rng.IntN(20)
	switch {
	case n == 0 && q.Chat.Model == "m0":
		return fakellm.Status(http.StatusNotFound, "model_not_found", "no such model")
	case n < 3:
		return fakellm.Status(http.StatusInternalServerError, "server_error", "try again")
	}
	limit := max(q.Chat.MaxTokens, q.Chat.MaxCompletionTokens)
	if limit == 0 {
		limit = billedOutput
	}
	completion := 1 + b.rng.IntN(limit)
	if b.rng.IntN(3) == 0 {
		completion = limit
	}
	if n < 5 { // the stream is cut: the provider bills what it has sent
		const pieces = 5
		b.bill(q, name, min(pieces, limit))
		return fakellm.Text(strings.Repeat("These are words. ", 20)).CutAfter(pieces)
	}
	u := b.bill(q, name, completion)
	return b.answer(q, name).Counts(u)
}

// bill counts a request of an errand. The prompt's tokens are its bytes divided by a number that the errand and the
// model have, so that a prompt that extends another one has as many tokens more as a real one.
func (b *biller) bill(q fakellm.Request, name string, completion int) fakellm.Usage {
	h := fnv.New64()
	h.Write([]byte(name + q.Chat.Model))
	u := fakellm.Usage{Prompt: len(q.Body) / int(4+h.Sum64()%3), Completion: completion}
	u.Cached = b.rng.IntN(u.Prompt + 1)
	u.CacheWrite = b.rng.IntN(u.Prompt - u.Cached + 1)
	paid := turn.Usage{InputTokens: int64(u.Prompt), OutputTokens: int64(u.Completion), CachedTokens: int64(u.Cached),
		CacheWriteTokens: int64(u.CacheWrite)}
	paid.Cost = b.prices[q.Chat.Model].Cost(paid)
	b.billed[name] = b.billed[name].Add(paid)
	return u
}

// answer picks what the model says. Only errands with "tree" call subagents.
func (b *biller) answer(q fakellm.Request, name string) fakellm.Reply {
	if q.Step > 10 || b.rng.IntN(4) == 0 {
		return fakellm.Text("Done.")
	}
	var calls []fakellm.ToolCall
	for range 1 + b.rng.IntN(3) {
		task := name + ", a tree: " + strings.Repeat("do it well. ", b.rng.IntN(20))
		switch n := b.rng.IntN(4); {
		case n == 0 && strings.Contains(string(q.Body), "agent_a"):
			calls = append(calls, callAgent("a", task))
		case n == 1 && strings.Contains(string(q.Body), `"background"`):
			calls = append(calls, inBackground("b", task))
		case n == 2:
			calls = append(calls, fakellm.ToolCall{Name: "local_read_file", Arguments: `{"path":"long.txt"}`})
		default:
			calls = append(calls, fakellm.ToolCall{Name: "local_list_files", Arguments: fmt.Sprintf(`{"path":".","step":%d}`,
				q.Step)})
		}
	}
	return fakellm.Calls(calls...)
}

// TestNoMaximumIsExceeded sends messages with random maxima to four workers, one of which is killed every second. What
// the provider has billed for a message and all that comes of it, by subagents and by their answers, never exceeds its
// max_tokens or max_cost_usd; what subagents were granted and have not used returns; and the provider's limit holds in
// every second.
func TestNoMaximumIsExceeded(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*maximaSeed, 2))
	b := &biller{prices: map[string]turn.Price{}, rng: rand.New(rand.NewPCG(*maximaSeed, 3)), billed: map[string]turn.Usage{}}
	e := newEnv(t, fakellm.Func(b.reply), agents, func(c *config.Config) {
		c.LLM.Model, c.LLM.Fallback, c.LLM.RetryFor = "m0", []string{"openai:m1"}, 2*time.Second
		c.LLM.MaxOutputTokens = billedOutput
		c.Policy.OnModelError, c.Runtime.MaxConsecutiveErrors, c.Runtime.MaxReprompts = turn.ErrorRetry, 20, 5
		c.Runtime.TurnTimeout = time.Hour
		for name, r := range map[string]turn.Rates{"m0": {Input: 1_000_000, CachedInput: 100_000, CacheWrite: 1_250_000,
			Output: 10_000_000}, "m1": {Input: 3_000_000, CachedInput: 3_000_000, Output: 5_000_000}} {
			dollars := func(rate int64) *float64 { return ptr(float64(rate) / 1e6) }
			b.prices[name] = turn.Price{Rates: r}
			c.Models = append(c.Models, config.Model{Name: "openai:" + name, ContextTokens: 16_000,
				InputPrice: dollars(r.Input), CachedInputPrice: dollars(r.CachedInput), CacheWritePrice: dollars(r.CacheWrite),
				OutputPrice: dollars(r.Output)})
		}
	})
	require.NoError(t, os.WriteFile(filepath.Join(e.cfg.Runtime.Workspace, "long.txt"),
		[]byte(strings.Repeat("A line of this file.\n", 100)), 0o600))
	const perSecond = 15
	require.NoError(t, e.journal.SetFleetLimits(t.Context(), "openai", fleet.Limits{fleet.LimitRequestsPerSecond: perSecond}))
	stopKilling := e.killWorkers(4)
	type message struct {
		run   client.WorkflowRun
		limit workflows.LimitsRequest
	}
	begun := make([]message, *maxima)
	var answered, ended sync.WaitGroup
	slots := make(chan struct{}, 40)
	reasons, mu := map[turn.FinishReason]int{}, sync.Mutex{}
	for i := range begun {
		m := &begun[i]
		if rng.IntN(4) > 0 {
			m.limit.MaxTokens = ptr(3000 + rng.Int64N(30_000))
		}
		if rng.IntN(4) == 0 || m.limit.MaxTokens == nil {
			m.limit.MaxCostUSD = ptr(float64(10+rng.IntN(140)) / 1000)
		}
		text, id := fmt.Sprintf("Errand %d", i), fmt.Sprintf("%s-%d", session(t), i)
		if i%2 == 0 {
			text += ", a tree"
		} else {
			text += " alone, with the files only"
		}
		slots <- struct{}{}
		m.run = e.begin(id, text, &m.limit)
		ended.Go(func() {
			defer func() { <-slots }()
			var res workflows.Result
			_ = m.run.Get(t.Context(), &res) // a turn may fail: then it has used less
			mu.Lock()
			defer mu.Unlock()
			reasons[res.FinishReason]++
		})
	}
	ended.Wait()
	for i := range begun {
		answered.Go(func() { e.awaitAnswers(fmt.Sprintf("%s-%d", session(t), i)) })
	}
	answered.Wait()
	t.Logf("%d messages, %d kills: %v", *maxima, stopKilling(), reasons)
	var paid turn.Usage
	for i, m := range begun {
		used := b.billed[fmt.Sprintf("Errand %d", i)]
		paid = paid.Add(used)
		if m.limit.MaxTokens != nil {
			assert.LessOrEqual(t, used.Total(), *m.limit.MaxTokens, "tokens of errand %d", i)
		}
		if m.limit.MaxCostUSD != nil {
			assert.LessOrEqual(t, used.Cost.Dollars(), *m.limit.MaxCostUSD, "cost of errand %d", i)
		}
		e.returned(fmt.Sprintf("%s-%d", session(t), i), used)
	}
	e.heldIn(time.Second, perSecond+2) // a machine that is busy sends a request later than it was granted
	assert.Positive(t, paid.Total())
	assert.Greater(t, reasons[turn.FinishMaxTokens]+reasons[turn.FinishMaxCost], *maxima/20)
	assert.Greater(t, reasons[turn.FinishAnswered], *maxima/10)
}

// returned checks that a message's subagents in the background count with what they have used, and no longer with what
// they were granted.
func (e *env) returned(session string, billed turn.Usage) {
	e.t.Helper()
	var used turn.Usage
	names := e.subagents(session)
	for _, name := range names {
		origin, err := e.journal.Origin(e.t.Context(), session, turn.SubagentAnswerID(name), "")
		require.NoError(e.t, err)
		if !assert.True(e.t, origin.Known) {
			return
		}
		used = turn.Usage{InputTokens: origin.Spent.Tokens, Cost: origin.Spent.Cost}
	}
	if len(names) == 0 {
		return
	}
	all, err := e.journal.SessionUsage(e.t.Context(), session)
	require.NoError(e.t, err)
	assert.Equal(e.t, all.Total(), used.Total(), "the ledger of the session's tree")
	assert.GreaterOrEqual(e.t, all.Total(), billed.Total())
}

// heldIn checks that in no window of this length more requests have reached the provider.
func (e *env) heldIn(window time.Duration, most int) {
	e.t.Helper()
	requests := e.model.Requests()
	for i := range requests {
		n := 0
		for _, other := range requests[i:] {
			if other.At.Sub(requests[i].At) < window {
				n++
			}
		}
		require.LessOrEqual(e.t, n, most, "requests in the %s after %s", window, requests[i].At)
	}
}

// killWorkers starts n workers, and kills and replaces one of them every second, until the returned function is called,
// which returns the number of kills.
func (e *env) killWorkers(n int) (stop func() int) {
	quit, done, kills := make(chan struct{}), make(chan struct{}), 0
	workers := make([]*process, n)
	for i := range workers {
		workers[i] = e.process()
	}
	go func() {
		defer close(done)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
				workers[kills%n].kill()
				workers[kills%n] = e.process()
				kills++
			}
		}
	}()
	return func() int { close(quit); <-done; return kills }
}
