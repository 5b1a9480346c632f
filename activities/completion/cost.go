package completion

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// spending is what limits and records the usage of one attempt of an inference.
type spending struct {
	attempt  journal.AttemptUsage // names the attempt; Usage and At are not set
	model    turn.Model           // its Price is nil if the price is unknown
	budget   journal.Budget       // of the turn, its session and its tenant
	counted  int64                // the provider's count of the turn's last prompt, if this one only adds messages to it
	added    int                  // the number of these messages
	reserved bool                 // the journal has a reservation for the attempt: of most
	most     turn.Usage
	latency  time.Duration // of the provider, once it has answered
}

// spending returns the spending of an attempt that has not begun to cost anything. The price and the limits are those
// that the turn froze when it began.
func (r *Runner) spending(ctx context.Context, in workflows.InferInput, inf journal.Inference,
	p *prompt) (spending, error) {
	t, err := r.frozen.Turn(ctx, in.Turn)
	s := spending{budget: r.budgetOf(in, t.Limits), model: turn.FindModel(t.Models, in.Provider, in.Prompt.Model),
		attempt: journal.AttemptUsage{Key: inf.Key, Attempt: inf.Attempt, Provider: in.Provider, Model: in.Prompt.Model}}
	if err == nil && t.PromptConfig == in.Prompt.PromptConfig {
		s.counted, s.added = p.counted(in, inf.Base.Seq)
	}
	return s, err
}

// budgetOf returns the ceilings of an inference of a turn with these limits.
func (r *Runner) budgetOf(in workflows.InferInput, l turn.Limits) journal.Budget {
	b := r.budget
	b.Turn, b.Subagents = l.MaxCost(), in.Subagents
	if l.MaxTokens > 0 {
		b.TurnTokens = &l.MaxTokens
	}
	return b
}

// counted returns the provider's count of the turn's last prompt, and the number of messages that this prompt, whose
// last message is base, adds to it. The count is 0 if the prompt differs in more than that: another model has another
// tokenizer, and a compaction replaces messages.
func (p *prompt) counted(in workflows.InferInput, base int64) (tokens int64, added int) {
	sameModel := p.last.Turn == in.Turn && p.last.Provider == in.Provider && p.last.Model == in.Prompt.Model
	if !sameModel || p.compaction != nil && p.compaction.At.Seq > p.last.UpTo {
		return 0, 0
	}
	return p.last.Tokens, int(base - p.last.UpTo)
}

// maxInferenceCost is the cost of an inference above which the provider's count of tokens must be wrong.
const maxInferenceCost = 10_000 * turn.Dollar

// priced returns the usage with its cost, or marked as unpriced if the price is unknown or the count of tokens is
// wrong.
func (s spending) priced(u turn.Usage) turn.Usage {
	if s.model.Price == nil {
		u.Unpriced = true
	} else if u.Cost = s.model.Price.Cost(u); u.Cost > maxInferenceCost {
		u.Cost, u.Unpriced = 0, true
	}
	return u
}

const (
	// leastOutput is the fewest output tokens with which an inference is sent. Not even a short answer fits into fewer.
	leastOutput = 64
	// unknownOutput is the limit of output tokens under a budget if neither the configuration nor the model list has
	// one. Nearly every model accepts it.
	unknownOutput = 4096
)

// reserve reserves the most that the attempt may cost, because the turn, its session or its tenant has a budget. Then
// it sets s.reserved, and lowers the prompt's limit of output tokens to what the budget allows. If not even leastOutput
// tokens fit, it returns an error that ends the inference.
func (r *Runner) reserve(ctx context.Context, s *spending, p *turn.Prompt, clock *attempt.Clock) error {
	in := journal.ReserveInput{AttemptUsage: s.attempt, Price: s.model.Price, Least: leastOutput, Budget: s.budget}
	in.Output, in.At = int64(p.MaxTokens), time.Now()
	if in.Output == 0 {
		in.Output = s.maxOutput(*p)
	}
	in.Usage.InputTokens = s.maxInput(*p)
	output, refusal, err := r.journal.ReserveUsage(ctx, in)
	if err != nil {
		return err
	}
	if refusal == nil {
		p.MaxTokens, s.reserved = int(output), true
		s.most = turn.Usage{InputTokens: in.Usage.InputTokens, OutputTokens: output, Estimated: true}
		return nil
	}
	var reason turn.FinishReason
	switch refusal.Limit {
	case fleet.LimitTurnTokens:
		reason = turn.FinishMaxTokens
	case fleet.LimitTurnCost:
		reason = turn.FinishMaxCost
	default: // the budget of the session or of the tenant
		return turn.NewError(turn.CodeBudgetUsedUp, nil, refusal.String()+": wait until the period ends, continue in another "+
			"session if the session's budget is used up, or raise the limit under [budget]")
	}
	return temporal.NewApplicationErrorWithOptions(refusal.String(), string(turn.CodeLimitExceeded),
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{clock.Busy(), "", reason}})
}

// maxOutput returns the limit of output tokens for a prompt whose limit is not configured. It leaves room for the
// prompt, because providers refuse a limit that exceeds the context window together with the prompt. The result is at
// least leastOutput, even if the prompt leaves no room.
func (s spending) maxOutput(p turn.Prompt) int64 {
	output := s.model.MaxOutputTokens
	if output == 0 {
		output = unknownOutput
	}
	if window := s.model.ContextTokens; window > 0 {
		output = min(output, window-p.Tokens()*5/4-promptTokens) // a quarter more, because Tokens is an estimate
	}
	return max(output, leastOutput)
}

// recordWithin bounds how long an attempt tries to record its usage after its turn was stopped or its worker shuts
// down.
const recordWithin = 5 * time.Second

// recordUsage records the usage u of an attempt that is not settled, and ends its reservation. It does so even if the
// turn was stopped meanwhile. An error is only logged.
func (r *Runner) recordUsage(ctx context.Context, s spending, u turn.Usage) {
	if u == (turn.Usage{}) && !s.reserved {
		return
	}
	in := s.attempt
	in.At = time.Now()
	if u != (turn.Usage{}) { // without usage, the cost is 0 and not unknown
		in.Usage = s.priced(u)
	}
	within := recordWithin
	if ctx.Err() == nil { // neither was the turn stopped nor does the worker shut down
		within = r.attempts.SettleWithin(ctx)
	}
	_, err := attempt.RetryUntilAvailable(context.WithoutCancel(ctx), within, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.journal.RecordUsage(ctx, in)
	})
	if err != nil {
		attempt.LogFailure(ctx, attempt.AsTurnError(err))
	}
}

// recordLostUsage records the estimated usage of the previous attempt, whose worker died in the middle of the stream.
func (r *Runner) recordLostUsage(ctx context.Context, s spending, inf journal.Inference, p turn.Prompt) {
	s.attempt.Attempt, s.reserved = inf.Lost.Attempt, false
	r.recordUsage(ctx, s, estimatedUsage(p, inf.Lost.OutputBytes))
}

// failedUsage returns the usage of a failed attempt of which received bytes have arrived: what the provider has
// reported, or else an estimate. It is zero if nothing arrived, because a provider does not bill a request that it
// refused. Under a budget the estimate is the most that the attempt can have used: a byte has at most one token.
func (s spending) failedUsage(p turn.Prompt, answer turn.Completion, received int64) turn.Usage {
	u := answer.Usage
	if u.Total() == 0 && received > 0 {
		u = estimatedUsage(p, received)
	}
	if s.reserved && u.Estimated {
		u.InputTokens = max(u.InputTokens, s.most.InputTokens)
		u.OutputTokens = max(u.OutputTokens, min(received, s.most.OutputTokens))
	}
	return u
}

// estimatedUsage returns the estimated usage of a prompt and a completion of outputBytes.
func estimatedUsage(p turn.Prompt, outputBytes int64) turn.Usage {
	return turn.Usage{InputTokens: p.Tokens(), OutputTokens: turn.TokensOf(int(outputBytes)), Estimated: true}
}
