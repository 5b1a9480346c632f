package completion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// A prompt that would not fit is compacted inside the activity that sends it. The activity has the whole prompt, so it
// notices a tool result that is too large before the provider does, and the history of the turn does not grow.
//
// A compaction is part of its inference: the journal refuses it if a newer attempt of the inference runs, its failures
// count as failures of the inference, and its tokens are in the inference's result. Once it is settled, it applies to
// all later prompts. Another attempt finds it in the journal and does not pay for it again.

// prompt has everything that an inference's prompt is rendered from, except for its turn.PromptSpec.
type prompt struct {
	provider   string
	api        turn.API
	model      turn.Model
	first      bool // the inference is the first one of its turn
	cacheKey   string
	config     turn.PromptConfig
	compaction *turn.Compaction   // replaces the messages before the spec's From; nil means that none is replaced
	anchor     *turn.Message      // the turn's user message if messages lacks it, or else nil
	messages   []turn.Message     // from the spec's From on
	used       turn.Usage         // by this inference's compactions
	last       journal.PromptSize // of the session's last prompt
	read       bool               // compaction and last are those of the journal or of this worker's memory
	overflow   bool               // the prompt was compacted because the provider had refused it as too long
	plan       string             // the instruction about the turn's plan; empty if there is no plan
}

// render renders the prompt. spec.From is the first of p.messages. If no message contains the instruction about the
// plan, because compaction has removed it, render adds it as a note.
func (p *prompt) render(spec turn.PromptSpec) turn.Prompt {
	out := turn.RenderCompacted(spec, p.config, p.compaction, p.anchor, p.messages)
	out.Provider, out.API, out.CacheKey = p.provider, p.api, p.cacheKey
	out.Settings, out.Reasoning, out.MaxTokens = p.model.Settings, p.model.Reasoning, p.model.OutputTokens(out.MaxTokens)
	out.MaxTokens = fitOutput(out, p.model.ContextTokens)
	if !p.first { // a turn whose every answer must be a call would never end
		out.Settings.ToolChoice = ""
	}
	hasPlan := func(m turn.Message) bool { return strings.Contains(m.Text, p.plan) }
	if p.plan != "" && !slices.ContainsFunc(out.Messages, hasPlan) {
		out.Note = strings.TrimSpace(out.Note + "\n\n" + p.plan)
	}
	return out
}

// apply replaces the messages up to c.To by the compaction c, and moves spec.From behind them. p.messages may still be
// empty, and is then loaded from the new spec.From on. The turn's own user message stays in the prompt: it becomes the
// anchor, unless the compaction keeps it verbatim.
func (p *prompt) apply(spec *turn.PromptSpec, c *turn.Compaction) {
	p.compaction = c
	if c.To >= spec.From {
		if i := spec.Anchor - spec.From; i >= 0 && i < int64(len(p.messages)) && c.To >= spec.Anchor {
			p.anchor = &p.messages[i]
		}
		p.messages = p.messages[min(c.To+1-spec.From, int64(len(p.messages))):]
		spec.From = c.To + 1
	}
	if c.Keeps(spec.Anchor) {
		spec.Anchor, p.anchor = 0, nil
	}
}

// lastInference is what the session's next inference uses of the one before: its compaction and the size of its
// prompt.
type lastInference struct {
	compaction *turn.Compaction
	size       journal.PromptSize
}

// maxLastInferences bounds the number of lastInference in memory; a compaction may take about 100 KB.
const maxLastInferences = 256

// openPrompt loads everything that the inference's prompt is rendered from, and compacts it if it would not fit the
// context window. The returned function frees the memory that is reserved for the prompt. If
// openPrompt returns an error, it has freed the memory itself.
func (r *Runner) openPrompt(ctx context.Context, in *workflows.InferInput, inf journal.Inference,
	p *prompt, clock *attempt.Clock) (leave func(), err error) {
	leave, err = r.loadPrompt(ctx, in, inf, p, clock)
	if errors.As(err, new(*journal.TooLargeError)) && p.config.Compaction != nil {
		if err = r.truncatePrompt(ctx, in, inf, p); err == nil {
			leave, err = r.loadPrompt(ctx, in, inf, p, clock)
		}
	}
	if err != nil {
		return leave, err
	}
	// The prompt always has the turn's request, unless a compaction keeps it: then Anchor is 0.
	if in.Prompt.Anchor > 0 && in.Prompt.From > in.Prompt.Anchor {
		p.anchor, err = r.anchor(ctx, *in)
	}
	if err == nil && p.config.Compaction != nil {
		err = r.compactPrompt(ctx, in, inf, p, turn.CompactionProjected, clock)
	}
	if err != nil {
		leave()
	}
	return leave, err
}

// recall applies the compaction that this worker has in memory to p, and reports whether p is complete with it. It is
// if this worker ran the session's last inference, or if this is the session's first one. Otherwise the caller reads
// the journal, and so does a later attempt, because an earlier one may have compacted the prompt.
func (r *Runner) recall(in *workflows.InferInput, inf journal.Inference, p *prompt) bool {
	last, ok := r.lastInferences.Get(in.Expect.Hash)
	p.last = last.size
	switch {
	case p.config.Compaction == nil, inf.Attempt == 1 && in.Expect.Seq == 1: // the session's first inference
		return true
	case !ok || inf.Attempt > 1:
		return false
	case last.compaction != nil:
		p.apply(&in.Prompt, last.compaction)
	}
	return true
}

// applyRecorded applies the compaction that the journal has. If an earlier attempt of this inference has made it,
// p.overflow and p.used tell of that.
func (r *Runner) applyRecorded(ctx context.Context, in *workflows.InferInput, inf journal.Inference, p *prompt,
	c *turn.Compaction) (err error) {
	if c == nil {
		return nil
	}
	p.apply(&in.Prompt, c)
	if c.Turn == in.Turn && c.Step == in.Step {
		p.overflow = c.Reason == turn.CompactionOverflow
		p.used, err = r.journal.CompactionUsage(ctx, inf.Key)
	}
	return err
}

// rememberInference keeps what the session's next inference needs of this one. upTo is the sequence number of the last
// message of the prompt.
func (r *Runner) rememberInference(in workflows.InferInput, settled journal.Inference, p *prompt, upTo int64) {
	r.lastInferences.Remove(in.Expect.Hash)
	size := journal.PromptSize{Turn: in.Turn, Provider: in.Provider, Model: in.Prompt.Model, UpTo: upTo}
	if u := settled.Completion.Usage; !u.Estimated {
		size.Tokens = u.InputTokens
	}
	r.lastInferences.Add(settled.Head.Hash, lastInference{p.compaction, size})
}

// project returns how many tokens of the context window the prompt and its completion will take. It adds an estimate
// for the new messages to the provider's count for the session's last prompt. If there is no such count, or the last
// prompt has no common beginning with this one, it estimates the whole.
func (p *prompt) project(spec turn.PromptSpec, rendered turn.Prompt) int64 {
	c, last := p.config.Compaction, p.last
	estimated := rendered.Tokens() + c.ReserveTokens
	// Hardly any text has more tokens than twice the estimate, so a small prompt needs no better one. The count does not
	// help if there is none, if this prompt begins after the counted messages, or if the conversation was compacted after
	// the count.
	if 2*estimated < c.Trigger() || last.Tokens == 0 || last.UpTo < spec.From ||
		p.compaction != nil && p.compaction.At.Seq > last.UpTo {
		return estimated
	}
	n := last.Tokens + c.ReserveTokens
	// The messages after those that the provider has counted are estimated.
	for _, m := range p.messages[min(last.UpTo+1-spec.From, int64(len(p.messages))):] {
		n += m.Tokens()
	}
	return n
}

// overflowRoom gives the assumed context window if it is unknown and a provider has refused a prompt as too long: this
// part of the prompt's tokens.
const overflowRoom = 0.9

// compactPrompt compacts the prompt if it would exceed the threshold of the context window, or if the provider has
// refused it (CompactionOverflow). It does so at most once in an inference for each of the two reasons. If no summary
// can be made, the prompt is truncated, so that a failed summary does not fail the inference. If nothing can be
// compacted, the prompt stays as it is, without an error.
func (r *Runner) compactPrompt(ctx context.Context, in *workflows.InferInput, inf journal.Inference, p *prompt,
	reason turn.CompactionReason, clock *attempt.Clock) error {
	compacted := p.compaction != nil && p.compaction.Turn == in.Turn && p.compaction.Step == in.Step // by this inference
	if p.config.Compaction == nil || compacted && (reason == turn.CompactionProjected || p.overflow) {
		return nil
	}
	rendered := p.render(in.Prompt)
	projected := p.project(in.Prompt, rendered)
	c := *p.config.Compaction
	if reason == turn.CompactionOverflow { // the provider's refusal counts more than the estimate
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
		if err := r.summarizeFor(ctx, *in, inf, c, draft, todo, clock); err != nil {
			return err
		}
	}
	return r.settleCompaction(ctx, in, inf, p, draft, rendered)
}

// settleCompaction records the compaction in the journal and applies it to the prompt. before is the prompt as it was
// rendered without the compaction.
func (r *Runner) settleCompaction(ctx context.Context, in *workflows.InferInput, inf journal.Inference,
	p *prompt, draft *turn.Compaction, before turn.Prompt) error {
	spec, after := in.Prompt, *p // copies, because the compaction counts only once it is recorded
	after.apply(&spec, draft)
	draft.After = resized(draft.Before, before.Tokens(), after.render(spec).Tokens())
	draft.SettledAt = time.Now()
	settled, err := attempt.RetryUntilAvailable(ctx, r.attempts.SettleWithin(ctx), func(ctx context.Context) (turn.Compaction, error) {
		return r.journal.SettleCompaction(ctx, journal.SettleCompaction{
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

// resized returns size, which is in the provider's tokens, multiplied by the ratio after/before of two estimates.
func resized(size, before, after int64) int64 {
	return int64(float64(size) * float64(after) / float64(max(before, 1)))
}

// truncatePrompt replaces all but the last KeptMessages messages by a compaction without a summary, because the
// transcript is too large to be loaded. Only the transcript of a session that grew while compaction was turned off can
// become so large. If there are no more messages than that, it returns a journal.TooLargeError.
func (r *Runner) truncatePrompt(ctx context.Context, in *workflows.InferInput, inf journal.Inference,
	p *prompt) error {
	kept := int64(turn.DefaultLimits().KeptMessages())
	c := turn.Compaction{
		Reason: turn.CompactionProjected, Method: turn.CompactionTruncated, At: inf.Base, From: in.Prompt.From,
		To: inf.Base.Seq - kept, Context: p.config.Compaction.ContextTokens, Threshold: p.config.Compaction.Trigger(),
		Warning: fmt.Sprintf("the messages exceed %d MiB", maxPrompt>>20),
	}
	if c.To < c.From {
		return &journal.TooLargeError{Seq: in.Prompt.From, Max: maxPrompt}
	}
	settled, err := r.journal.SettleCompaction(ctx, journal.SettleCompaction{
		Session: in.Session, Key: inf.Key, Attempt: inf.Attempt, Compaction: c,
	})
	if err == nil {
		p.apply(&in.Prompt, &settled)
	}
	return err
}
