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
		left := max(*t.maxCost-in.Delegated, 0)
		t.maxCost = &left
	}
	s := spending{maxCost: t.maxCost, model: turn.FindModel(t.models, in.Provider, in.Plan.Model),
		attempt: journal.AttemptUsage{Key: inf.Key, Attempt: inf.Attempt, Provider: in.Provider, Model: in.Plan.Model}}
	return s, err
}

// checkPrices refuses a turn with a ceiling in dollars if the price of one of its models is unknown.
func (a *Activities) checkPrices(cfg turn.Config, condense *turn.Condensing) error {
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
		if condense != nil {
			models = append(slices.Clone(models), condense.Model)
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
	if err := a.journal.ReleaseInference(ctx, s.attempt.Key, s.attempt.Attempt); err != nil {
		return err
	}
	if refusal.Limit != journal.BudgetTurn {
		return turn.Errorf(turn.CodeBudgetUsedUp, nil, refusal.String()+": wait until the period ends, continue in another "+
			"session if the session's budget is used up, or raise the limit under [budget]")
	}
	message := fmt.Sprintf("the turn has cost %s of its max_cost_usd of %s, and even a short answer may cost %s more",
		refusal.Used, refusal.Max, refusal.Needs)
	return temporal.NewApplicationErrorWithOptions(message, string(turn.CodeGuardExceeded),
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

// Bounds of what providers count in addition to text.
const (
	messageTokens = 16   // roles and separators of a message or tool
	promptTokens  = 512  // what providers add to every prompt with tools
	imageTokens   = 5000 // of the largest image, after the provider has scaled it
	audioBytes    = 100  // of compressed audio, per token
)

// maxInput returns an upper estimate of the input tokens of a prompt. An ordinary prompt has about half as many.
func maxInput(p turn.Prompt) int64 {
	n := promptTokens + maxTokensOf(p.System) + maxTokensOf(p.Note) + maxTokensOf(string(p.OutputSchema))
	for _, m := range p.Messages {
		n += messageTokens + maxTokensOf(m.Text)
		for _, c := range m.ToolCalls {
			n += messageTokens + maxTokensOf(c.Tool) + maxTokensOf(c.Arguments) + maxTokensOf(c.WireID)
		}
		if m.Items != nil && m.Items.Provider == p.Provider && m.Items.Model == p.Model {
			for _, item := range m.Items.Items {
				n += maxTokensOf(string(item.Raw))
			}
		}
		for _, item := range m.Media {
			n += imageTokens + item.Bytes/audioBytes
		}
	}
	for _, t := range p.Tools {
		n += messageTokens + maxTokensOf(t.Name) + maxTokensOf(t.Description) + maxTokensOf(string(t.Schema))
	}
	return n
}

// maxTokensOf returns an upper estimate of a text's tokens. A byte-pair tokenizer never joins words, and joins single
// spaces with what follows. The estimate was between 1.0 and 3.1 times the larger count of o200k_base and cl100k_base
// for prose in six languages, source code, JSON, hexadecimal, base64 and random letters.
func maxTokensOf(text string) (n int64) {
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case letter(c) || digit(c):
			for end < len(text) && (letter(text[end]) || digit(text[end])) {
				end++
			}
			n += maxTokensOfWord(text[i:end])
		case c == ' ':
			for end < len(text) && text[end] == ' ' {
				end++
			}
			if end-i > 1 || end == len(text) {
				n++
			}
		default: // punctuation, and a byte of another script
			n++
		}
		i = end
	}
	return n
}

// wordBytes is the length from which a word may be a key or an encoded file.
const wordBytes = 20

// maxTokensOfWord counts three letters for a token, or two if they are capitals, and each digit.
func maxTokensOfWord(word string) int64 {
	digits := 0
	for i := range len(word) {
		if digit(word[i]) {
			digits++
		}
	}
	letters := len(word) - digits
	switch {
	case len(word) >= wordBytes && digits > 0:
		return int64(len(word))
	case len(word) >= wordBytes:
		return int64(len(word)*2/3 + 1)
	case letters > 1 && 'A' <= word[1] && word[1] <= 'Z':
		return int64((letters+1)/2 + digits)
	}
	return int64((letters+2)/3 + digits)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
