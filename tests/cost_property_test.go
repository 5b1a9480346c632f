package tests

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

var (
	costTurns = flag.Int("cost-turns", 60, "turns of TestCostsAreTheProvidersOwn")
	costSeed  = flag.Uint64("cost-seed", 1, "seed of TestCostsAreTheProvidersOwn")
)

// cashier is a provider of several models that answers, fails and refuses at random, and counts what it charges.
type cashier struct {
	prices map[string]turn.Price

	mu      sync.Mutex
	rng     *rand.Rand
	byTurn  map[string]turn.Usage
	byModel map[string]turn.Usage
}

var numbered = regexp.MustCompile(`Turn \d+`)

func (c *cashier) reply(q fakellm.Request) fakellm.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n := c.rng.IntN(20); {
	case n == 0 && q.Chat.Model != "m2": // the last one has no fallback
		return fakellm.Status(http.StatusNotFound, "model_not_found", "no such model")
	case n < 4:
		return fakellm.Status(http.StatusInternalServerError, "server_error", "try again")
	}
	limit := max(q.Chat.MaxTokens, q.Chat.MaxCompletionTokens)
	if limit == 0 {
		limit = 400
	}
	u := fakellm.Usage{Prompt: 1 + c.rng.IntN(len(q.Body)/8), Completion: 1 + c.rng.IntN(limit)}
	u.Cached = c.rng.IntN(u.Prompt + 1)
	u.CacheWrite = c.rng.IntN(u.Prompt - u.Cached + 1)
	u.Reasoning = c.rng.IntN(u.Completion + 1)
	paid := turn.Usage{InputTokens: int64(u.Prompt), OutputTokens: int64(u.Completion), CachedTokens: int64(u.Cached),
		CacheWriteTokens: int64(u.CacheWrite), ReasoningTokens: int64(u.Reasoning)}
	p := c.prices[q.Chat.Model]
	paid.Cost = turn.USD((paid.InputTokens-paid.CachedTokens-paid.CacheWriteTokens)*p.Input + paid.CachedTokens*p.CachedInput +
		paid.CacheWriteTokens*p.CacheWrite + paid.OutputTokens*p.Output)
	name := string(numbered.Find(q.Body))
	c.byTurn[name] = c.byTurn[name].Add(paid)
	c.byModel[q.Chat.Model] = c.byModel[q.Chat.Model].Add(paid)
	reply := fakellm.Text("Done.")
	if q.Step < 6 && c.rng.IntN(3) > 0 {
		reply = fakellm.Call("local_quick_echo", fmt.Sprintf(`{"text":"again %d"}`, q.Step))
	}
	return reply.Counts(u)
}

// TestCostsAreTheProvidersOwn runs turns with random prices, caches, failures, fallbacks and ceilings. Each turn and
// each model has cost what the provider has charged, to the picodollar, and no turn exceeds its ceiling.
func TestCostsAreTheProvidersOwn(t *testing.T) {
	t.Parallel()
	c := &cashier{prices: map[string]turn.Price{}, rng: rand.New(rand.NewPCG(*costSeed, 0)),
		byTurn: map[string]turn.Usage{}, byModel: map[string]turn.Usage{}}
	e := newEnv(t, fakellm.Func(c.reply), func(cfg *config.Config) {
		cfg.LLM.Model, cfg.LLM.Fallback, cfg.Tuning.RetryMax = "m0", []string{"openai:m1", "openai:m2"}, ptr(8)
		for i := range 3 {
			name := fmt.Sprintf("m%d", i)
			var rates [4]int64 // in microdollars per million tokens, which are picodollars per token
			var dollars [4]*float64
			for k := range rates {
				rates[k] = c.rng.Int64N(20_000_000)
				dollars[k] = ptr(float64(rates[k]) / 1e6)
			}
			c.prices[name] = turn.Price{Rates: turn.Rates{Input: rates[0], CachedInput: rates[1], CacheWrite: rates[2],
				Output: rates[3]}}
			cfg.Models = append(cfg.Models, config.Model{Name: "openai:" + name, MaxOutputTokens: 400, InputPrice: dollars[0],
				CachedInputPrice: dollars[1], CacheWritePrice: dollars[2], OutputPrice: dollars[3]})
		}
	})
	e.work(withEcho()...)
	rng := rand.New(rand.NewPCG(*costSeed, 1))
	ends, begun := make([]workflows.Result, *costTurns), make([]client.WorkflowRun, *costTurns)
	ceilings := make([]turn.USD, *costTurns)
	for i := range begun {
		limits := &workflows.LimitsRequest{}
		if rng.IntN(2) == 0 {
			dollars := float64(rng.IntN(300)+1) / 1000
			limits.MaxCostUSD, ceilings[i] = &dollars, turn.USD(dollars*float64(turn.Dollar))
		}
		begun[i] = e.begin(fmt.Sprintf("%s-%d", session(t), i), fmt.Sprintf("Turn %d", i), limits)
	}
	for i, run := range begun {
		if err := run.Get(t.Context(), &ends[i]); err != nil {
			_, ends[i] = e.failure(run)
		}
	}
	reasons := map[turn.FinishReason]int{}
	for i, end := range ends {
		reasons[end.FinishReason]++
		assert.Equal(t, c.byTurn[fmt.Sprintf("Turn %d", i)], end.Usage, "turn %d, which ended with %s", i, end.FinishReason)
		if ceilings[i] > 0 {
			assert.LessOrEqual(t, end.Usage.Cost, ceilings[i], "turn %d", i)
		}
		used, err := e.journal.TurnUsage(t.Context(), begun[i].GetRunID())
		require.NoError(t, err)
		assert.Equal(t, end.Usage, used)
	}
	t.Logf("%d turns: %v", *costTurns, reasons)
	rows, err := e.journal.Usage(t.Context(), journal.UsageByModel, time.Time{})
	require.NoError(t, err)
	for _, row := range rows {
		assert.Equal(t, c.byModel[row.Key[len("openai/"):]], row.Usage, row.Key)
	}
}
