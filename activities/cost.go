package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// spending is what one attempt of an inference costs.
type spending struct {
	attempt  journal.AttemptUsage // without Usage and At
	model    turn.Model           // without Price if that is unknown
	maxCost  *turn.USD            // of the turn
	reserved bool
}

// spending reads the price that the turn froze, before anything is paid.
func (a *Activities) spending(ctx context.Context, in workflows.InferInput, inf journal.Inference) (spending, error) {
	t, err := a.begunTurn(ctx, in.Turn)
	if t.maxCost != nil {
		left := max(*t.maxCost-in.Subagents, 0)
		t.maxCost = &left
	}
	s := spending{maxCost: t.maxCost, model: turn.FindModel(t.models, in.Provider, in.Prompt.Model),
		attempt: journal.AttemptUsage{Key: inf.Key, Attempt: inf.Attempt, Provider: in.Provider, Model: in.Prompt.Model}}
	return s, err
}

// checkPrices refuses a turn with a ceiling in dollars if the price of one of its models is unknown.
func (a *Activities) checkPrices(cfg turn.Config, compactPrompt *turn.CompactionSettings) error {
	ceiling := "max_cost_usd"
	switch b := a.budget; {
	case cfg.Limits.MaxCostUSD > 0:
	case b.Session != nil || b.TenantDay != nil || b.TenantMonth != nil:
		ceiling = "a limit in dollars under [budget]"
	default:
		return nil
	}
	unpriced := cfg.Model
	if models := cfg.Models; len(models) > 0 {
		if compactPrompt != nil {
			models = append(slices.Clone(models), compactPrompt.Model)
		}
		i := slices.IndexFunc(models, func(m turn.Model) bool { return m.Price == nil })
		if i < 0 {
			return nil
		}
		unpriced = models[i].Name
	}
	return turn.Errorf(turn.CodeConfigInvalid, nil, fmt.Sprintf("there is %s, but the price of model %q is not known, so "+
		"its cost cannot be limited: set its price under [[models]], or limit tokens instead", ceiling,
		turn.Truncate(unpriced, 60)))
}

// maxInferenceCost is the cost above which a provider's count of tokens is not believed.
const maxInferenceCost = 10_000 * turn.Dollar

// priced returns the usage with its cost. An unknown price is not 0.
func (s spending) priced(u turn.Usage) turn.Usage {
	if s.model.Price == nil {
		u.Unpriced = true
	} else if u.Cost = s.model.Price.Cost(u); u.Cost > maxInferenceCost {
		u.Cost, u.Unpriced = 0, true
	}
	return u
}

const (
	// leastOutput is the limit of output tokens below which an inference is refused: not even a short answer fits.
	leastOutput = 64
	// unknownOutput is the limit under a budget if neither the configuration nor the model has one. Nearly every model
	// accepts it.
	unknownOutput = 4096
)

// reserve reserves the most that the attempt may cost, if the turn, its session or its tenant has a budget, and lowers
// the prompt's limit of output tokens to what fits.
func (a *Activities) reserve(ctx context.Context, s *spending, p *turn.Prompt, clock *clock) error {
	budget := a.budget
	if budget.Turn = s.maxCost; budget.Empty() {
		return nil
	}
	in := journal.ReserveInput{AttemptUsage: s.attempt, Price: s.model.Price, Least: leastOutput, Budget: budget}
	in.Output, in.At = int64(p.MaxTokens), time.Now()
	if in.Output == 0 {
		in.Output = s.room(*p)
	}
	in.Usage.InputTokens = maxInput(*p)
	output, refusal, err := a.journal.ReserveUsage(ctx, in)
	if err != nil {
		return err
	}
	if refusal == nil {
		p.MaxTokens, s.reserved = int(output), true
		return nil
	}
	if refusal.Limit != journal.BudgetTurn {
		return turn.Errorf(turn.CodeBudgetUsedUp, nil, refusal.String()+": wait until the period ends, continue in another "+
			"session if the session's budget is used up, or raise the limit under [budget]")
	}
	message := fmt.Sprintf("the turn has cost %s of its max_cost_usd of %s, and even a short answer may cost %s more",
		refusal.Used, refusal.Max, refusal.Needs)
	return temporal.NewApplicationErrorWithOptions(message, string(turn.CodeLimitExceeded),
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{clock.busy(), "", turn.FinishMaxCost}})
}

// room returns the longest completion that a model can give to a prompt. Providers refuse a limit that exceeds the
// context window together with the prompt.
func (s spending) room(p turn.Prompt) int64 {
	output := s.model.MaxOutputTokens
	if output == 0 {
		output = unknownOutput
	}
	if window := s.model.ContextTokens; window > 0 {
		output = min(output, window-p.Tokens()*5/4-promptTokens)
	}
	return max(output, leastOutput)
}

// recordWithin bounds how long an attempt of a turn that was stopped, or whose worker stops, tries to record its usage.
const recordWithin = 5 * time.Second

// record writes what an attempt has used that is not settled. It is not lost if the turn was stopped meanwhile.
func (a *Activities) record(ctx context.Context, s spending, u turn.Usage) {
	if u == (turn.Usage{}) && !s.reserved {
		return
	}
	in := s.attempt
	if in.At = time.Now(); u != (turn.Usage{}) {
		in.Usage = s.priced(u)
	}
	within := recordWithin
	if ctx.Err() == nil {
		within = a.settleWithin(ctx)
	}
	_, err := retryUntilAvailable(context.WithoutCancel(ctx), within, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.journal.RecordUsage(ctx, in)
	})
	if err != nil {
		logFailure(ctx, asTurnError(err))
	}
}

// recordLost records an estimate for an earlier attempt whose worker died in the middle of the stream.
func (a *Activities) recordLost(ctx context.Context, s spending, inf journal.Inference, p turn.Prompt) {
	if inf.Lost.Attempt > 0 {
		s.attempt.Attempt, s.reserved = inf.Lost.Attempt, false
		a.record(ctx, s, estimatedUsage(p, inf.Lost.OutputBytes))
	}
}

// failedUsage returns what is known of the usage of a failed attempt: what the provider has reported, or else an
// estimate if the stream began. A provider does not bill a request that it refused.
func failedUsage(p turn.Prompt, answer turn.Completion, received int64) turn.Usage {
	if answer.Usage.Total() > 0 || received == 0 {
		return answer.Usage
	}
	return estimatedUsage(p, received)
}

// estimatedUsage estimates four bytes per token.
func estimatedUsage(p turn.Prompt, outputBytes int64) turn.Usage {
	return turn.Usage{InputTokens: inputBytes(p) / 4, OutputTokens: (outputBytes + 3) / 4, Estimated: true}
}
