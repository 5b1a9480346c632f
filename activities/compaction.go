package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// A prompt that would not fit is compacted inside the activity that sends it. The activity has the whole prompt, so it
// sees a result that is too large before the provider does, and the history of the turn does not grow.
//
// A compaction belongs to its inference: the number of the inference's attempt fences it, its failures count as the
// inference's, and its tokens are in the inference's result. Once it is settled, another attempt finds it in the
// journal, where it applies to all later prompts, and does not pay for it again.

// prompt is what an inference's prompt is rendered from.
type prompt struct {
	provider   string
	api        turn.API
	cacheKey   string
	config     turn.PromptConfig
	compaction *turn.Compaction // what stands for the messages before plan.From; nil: nothing
	anchor     *turn.Message
	messages   []turn.Message
	used       turn.Usage // by this inference's compactions
	overflow   bool       // the provider refused the prompt as too long, and it was compacted for that
	plan       string     // how far the plan of the turn has come; empty: there is none
}

func (p *prompt) render(plan turn.PromptSpec) turn.Prompt {
	out := turn.RenderCompacted(plan, p.config, p.compaction, p.anchor, p.messages)
	out.Provider, out.API, out.CacheKey = p.provider, p.api, p.cacheKey
	shown := func(m turn.Message) bool { return strings.Contains(m.Text, p.plan) }
	if p.plan != "" && !slices.ContainsFunc(out.Messages, shown) { // the message was compacted or cut off
		out.Note = strings.TrimSpace(out.Note + "\n\n" + p.plan)
	}
	return out
}

// apply makes c stand for the beginning of the window.
func (p *prompt) apply(plan *turn.PromptSpec, c *turn.Compaction) {
	p.compaction = c
	if c.To >= plan.From {
		if i := plan.Anchor - plan.From; i >= 0 && i < int64(len(p.messages)) && c.To >= plan.Anchor {
			p.anchor = &p.messages[i]
		}
		p.messages = p.messages[min(c.To+1-plan.From, int64(len(p.messages))):]
		plan.From = c.To + 1
	}
	if c.Keeps(plan.Anchor) {
		plan.Anchor, p.anchor = 0, nil
	}
}

// remembered is what the next inference of a session needs of the last one.
type remembered struct {
	compaction *turn.Compaction
	measured
}

// measured is the size of a prompt as its provider counted it, in tokens. upTo is the prompt's last message.
type measured struct{ tokens, upTo int64 }

// maxRemembered bounds the sessions that are remembered; a compaction may take about 100 KB.
const maxRemembered = 256

// openPrompt loads what an inference's prompt is rendered from. The returned function frees the memory that is reserved
// for it.
func (a *Activities) openPrompt(ctx context.Context, in *workflows.InferInput, inf journal.Inference,
	cfg turn.PromptConfig, clock *clock) (p *prompt, leave func(), err error) {
	p = &prompt{config: cfg}
	if p.plan, err = a.planInstruction(ctx, inf.Key, cfg.Plan); err != nil {
		return nil, nil, err
	}
	if err := a.loadCompacted(ctx, in, inf, p); err != nil {
		return nil, nil, err
	}
	p.messages, leave, err = a.prompting(ctx, *in, inf.Base, clock)
	if errors.As(err, new(*journal.TooLargeError)) && cfg.Compaction != nil {
		if err = a.cutOff(ctx, in, inf, p); err == nil {
			p.messages, leave, err = a.prompting(ctx, *in, inf.Base, clock)
		}
	}
	if err == nil {
		if p.anchor, err = a.anchor(ctx, *in); err == nil {
			err = a.compactPrompt(ctx, in, inf, p, turn.CompactionProjected, clock)
		}
		if err != nil {
			leave()
		}
	}
	return p, leave, err
}

// loadCompacted finds the compaction that applies to the inference. A first attempt uses what this worker remembers,
// if it ran the inference before; a later attempt may follow one that has compacted.
func (a *Activities) loadCompacted(ctx context.Context, in *workflows.InferInput, inf journal.Inference,
	p *prompt) error {
	if p.config.Compaction == nil {
		return nil
	}
	last, ok := a.remembered.Get(in.Expect.Hash)
	if !ok || inf.Attempt > 1 {
		var err error
		if last.compaction, err = a.journal.Compaction(ctx, in.Turn, inf.Base.Seq); err != nil {
			return err
		}
	}
	c := last.compaction
	if c == nil {
		return nil
	}
	p.apply(&in.Prompt, c)
	if c.Turn != in.Turn || c.Step != in.Step {
		return nil
	}
	var err error
	p.overflow = c.Reason == turn.CompactionOverflow
	p.used, err = a.journal.CompactionUsage(ctx, inf.Key)
	return err
}

// remember keeps what the session's next inference needs.
func (a *Activities) remember(in workflows.InferInput, settled journal.Inference, p *prompt, sent int64) {
	if p.config.Compaction == nil {
		return
	}
	a.remembered.Remove(in.Expect.Hash)
	m := measured{upTo: sent}
	if u := settled.Completion.Usage; !u.Estimated {
		m.tokens = u.InputTokens
	}
	a.remembered.Add(settled.Head.Hash, remembered{p.compaction, m})
}

// project returns how many tokens of the context the prompt and its completion will take: those that the provider
// counted for the session's last prompt, and an estimate of what is new.
func (a *Activities) project(ctx context.Context, in workflows.InferInput, inf journal.Inference, p *prompt,
	rendered turn.Prompt) (int64, error) {
	c := p.config.Compaction
	estimated := rendered.Tokens() + c.ReserveTokens
	if 2*estimated < c.Trigger() { // hardly any text has more tokens than twice the estimate
		return estimated, nil
	}
	last, ok := a.remembered.Get(in.Expect.Hash)
	if !ok {
		var err error
		last.tokens, last.upTo, err = a.journal.LastInput(ctx, in.Turn, inf.Base.Seq)
		if err != nil {
			return 0, err
		}
	}
	if last.tokens == 0 || last.upTo < in.Prompt.From || p.compaction != nil && p.compaction.At.Seq > last.upTo {
		return estimated, nil
	}
	n := last.tokens + c.ReserveTokens
	for _, m := range p.messages[min(last.upTo+1-in.Prompt.From, int64(len(p.messages))):] {
		n += m.Tokens()
	}
	return n, nil
}

// overflowRoom is the part of a prompt that is taken for the context window if a provider refuses the prompt as too
// long and the window is unknown.
const overflowRoom = 0.9

// compact compacts the prompt if the reason asks for it and the inference has not been compacted for it yet. Failures
// of the summary do not fail the inference.
func (a *Activities) compactPrompt(ctx context.Context, in *workflows.InferInput, inf journal.Inference, p *prompt,
	reason turn.CompactionReason, clock *clock) error {
	own := p.compaction != nil && p.compaction.Turn == in.Turn && p.compaction.Step == in.Step
	if p.config.Compaction == nil || own && (reason == turn.CompactionProjected || p.overflow) {
		return nil
	}
	rendered := p.render(in.Prompt)
	projected, err := a.project(ctx, *in, inf, p, rendered)
	if err != nil {
		return err
	}
	c := *p.config.Compaction
	if reason == turn.CompactionOverflow {
		projected = max(projected, c.ContextTokens)
		if c.ContextTokens == 0 {
			c.ContextTokens = int64(float64(projected) * overflowRoom)
		}
	}
	if c.ContextTokens == 0 || projected < c.Trigger() {
		return nil
	}
	draft, todo := turn.PlanCompaction(turn.CompactionInput{
		CompactionSettings: c, Reason: reason, Head: inf.Base, Previous: p.compaction, From: in.Prompt.From, Window: p.messages,
		Prompt: rendered, Projected: projected,
	})
	if draft == nil {
		return nil
	}
	if len(todo) > 0 {
		if err := a.summarizeFor(ctx, *in, inf, c, draft, todo, clock); err != nil {
			return err
		}
	}
	return a.settleCompaction(ctx, in, inf, p, draft, rendered)
}

// settleCompaction records the compaction and applies it to the prompt.
func (a *Activities) settleCompaction(ctx context.Context, in *workflows.InferInput, inf journal.Inference,
	p *prompt, draft *turn.Compaction, before turn.Prompt) error {
	plan, after := in.Prompt, *p
	after.apply(&plan, draft)
	draft.After = resized(draft.Before, before.Tokens(), after.render(plan).Tokens())
	draft.SettledAt = time.Now()
	settled, err := retryUntilAvailable(ctx, a.settleWithin(ctx), func(ctx context.Context) (turn.Compaction, error) {
		return a.journal.SettleCompaction(ctx, journal.SettleCompaction{
			Session: in.Session, Key: inf.Key, Attempt: inf.Attempt, Compaction: *draft,
		})
	})
	if err != nil {
		return err
	}
	p.apply(&in.Prompt, &settled)
	p.used = p.used.Add(settled.Usage)
	p.overflow = settled.Reason == turn.CompactionOverflow
	return nil
}

// resized scales a size in the provider's tokens as an estimate has changed.
func resized(size, before, after int64) int64 {
	return int64(float64(size) * float64(after) / float64(max(before, 1)))
}

// cutOff leaves out all but the last messages of a transcript that is too large to be read, which only a session has
// that grew without being compacted.
func (a *Activities) cutOff(ctx context.Context, in *workflows.InferInput, inf journal.Inference, p *prompt) error {
	kept := int64(turn.DefaultLimits().KeepHistoryMessages)
	c := turn.Compaction{
		Reason: turn.CompactionProjected, Method: turn.CompactionTruncated, At: inf.Base, From: in.Prompt.From,
		To: inf.Base.Seq - kept, Context: p.config.Compaction.ContextTokens, Threshold: p.config.Compaction.Trigger(),
		Warning: fmt.Sprintf("the messages exceed %d MiB", maxPrompt>>20),
	}
	if c.To < c.From {
		return &journal.TooLargeError{Seq: in.Prompt.From, Max: maxPrompt}
	}
	settled, err := a.journal.SettleCompaction(ctx, journal.SettleCompaction{
		Session: in.Session, Key: inf.Key, Attempt: inf.Attempt, Compaction: c,
	})
	if err == nil {
		p.apply(&in.Prompt, &settled)
	}
	return err
}
