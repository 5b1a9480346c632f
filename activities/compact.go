package activities

import (
	"context"
	"errors"

	"github.com/everturn/everturn/activities/attempt"
	"github.com/everturn/everturn/activities/completion"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Compact compacts the conversation of a session whose turn has ended. If the journal has the request's compaction,
// Compact returns it and does not pay for another.
func (a *Activities) Compact(ctx context.Context, in workflows.CompactInput) (workflows.CompactResult, error) {
	if a.elsewhere.Inference != "" { // this worker runs no inferences
		return workflows.CompactResult{}, workflows.Elsewhere(a.queues)
	}
	clock := attempt.StartClock(ctx)
	defer clock.Stop()
	done, err := a.compactSession(ctx, in)
	if err != nil || done == nil {
		return workflows.CompactResult{Nothing: err == nil}, a.attempts.Failure(ctx, err)
	}
	return workflows.CompactResult{CompactedEvent: done.Report()}, nil
}

// compactSession returns the compaction that the request made before, or else makes and records one. It returns nil if
// there is nothing to summarize.
func (a *Activities) compactSession(ctx context.Context, in workflows.CompactInput) (*turn.Compaction, error) {
	j := a.journal.Tenant(in.Tenant)
	done, err := j.Compacted(ctx, in.Session, in.Request)
	if err == nil || !errors.Is(err, journal.ErrNotFound) { // compacted before, or the journal cannot be read
		return &done, err
	}
	input, err := a.compactInput(ctx, j, in)
	if err != nil {
		return nil, err
	}
	draft, err := a.completions.Compact(ctx, in, input)
	if err != nil || draft == nil {
		return nil, err
	}
	settled, err := j.AddCompaction(ctx, in.Session, in.Request, *draft)
	return &settled, err
}

// compactInput reads what the planning of a compaction needs: the messages since the session's last compaction, and
// the settings of a turn of the default agent that would begin now. It returns an error if the session has a running
// turn, if that agent does not compact, or if the messages exceed the largest prompt.
func (a *Activities) compactInput(ctx context.Context, j *journal.DB,
	in workflows.CompactInput) (out turn.CompactionInput, err error) {
	session, err := j.Session(ctx, in.Session)
	if err != nil {
		return out, err
	}
	if last := session.LastTurn; last.ID != "" && !last.State.Terminal() {
		return out, turn.NewError(turn.CodeSessionBusy, nil,
			"the session has a running turn; compact it when the turn has ended")
	}
	begin := workflows.BeginInput{}
	begin.Tenant = in.Tenant
	cfg, promptConfig, err := a.newConfig(ctx, begin, nil)
	if err != nil {
		return out, err
	}
	if promptConfig.Compaction == nil {
		return out, turn.NewError(turn.CodeConfigInvalid, nil,
			`compacting is turned off: set compaction = "auto" in [prompt] of the workers' agent.toml`)
	}
	list, err := j.Compactions(ctx, in.Session)
	if err != nil {
		return out, err
	}
	spec := turn.PromptSpec{From: 1, Mode: cfg.Mode}
	if len(list) > 0 {
		out.Previous = &list[len(list)-1]
		spec.From = out.Previous.To + 1
	}
	if out.Window, err = j.Messages(ctx, in.Session, spec.From, session.Head.Seq); err != nil {
		return out, err
	}
	if err := completion.CheckSize(spec.From, out.Window); err != nil {
		return out, err
	}
	out.CompactionSettings, out.Reason = *promptConfig.Compaction, turn.CompactionManual
	out.Head, out.From = session.Head, spec.From
	out.Prompt = turn.RenderCompacted(spec, promptConfig, out.Previous, nil, out.Window)
	out.Projected = out.Prompt.Tokens() + out.ReserveTokens
	if out.ContextTokens == 0 {
		out.ContextTokens = max(out.Projected, unknownContext)
	}
	return out, nil
}

// unknownContext is the context window, in tokens, that compaction assumes for a model whose window is unknown.
const unknownContext = 32_000
