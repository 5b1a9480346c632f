package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// origin is what the answer of a subagent comes of: the turn that called the subagent, and what is left of the limits of
// the user's message that led to it. The turn that begins with the answer is bound to both.
type origin struct {
	caller turn.Config
	plan   plan.Confirm // of the caller's plan
	limits turn.Limits  // of the user's message
	left   turn.Allowance
}

// originOf returns what the message of a new turn comes of; nil for the message of a user. Everything is read from the
// journal: nothing that a client sends makes a message an answer.
func (a *Activities) originOf(ctx context.Context, in workflows.BeginInput) (*origin, error) {
	if _, _, ok := turn.AnsweredCall(in.Message.ID); !ok {
		return nil, nil
	}
	from, err := a.journal.Tenant(in.Tenant).Origin(ctx, in.Session, in.Message.ID, in.Turn)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, turn.Errorf(turn.CodeConfigInvalid, err, fmt.Sprintf("the message ID %q is for the answer of a subagent, "+
			"and the session has no such answer; use another ID", turn.Truncate(in.Message.ID, 200)))
	}
	if err != nil {
		return nil, fmt.Errorf("reading what the answer comes of: %w", err)
	}
	caller, err := a.configOf(ctx, from.Turn)
	if err != nil {
		return nil, err
	}
	root, err := a.configOf(ctx, from.Root)
	if err != nil {
		return nil, err
	}
	promptConfig, err := a.promptConfigs.get(ctx, caller.PromptConfig)
	if err != nil {
		return nil, err
	}
	o := &origin{caller: caller, plan: promptConfig.Plan, limits: root.Limits}
	if from.Known {
		o.left = root.Limits.Left(from.Spent)
	}
	return o, nil
}

// configOf reads the config of a turn.
func (a *Activities) configOf(ctx context.Context, turnID string) (turn.Config, error) {
	rec, err := a.journal.TurnConfig(ctx, turnID)
	if err != nil {
		return turn.Config{}, fmt.Errorf("reading the configuration of turn %s: %w", turnID, behind(err))
	}
	return decodeConfig(rec.Config)
}

// apply gives the turn the caller's agent, and what the user's message chose. The input's own choices do not count.
func (o *origin) apply(in *workflows.BeginInput) {
	if o == nil {
		return
	}
	in.Agent, in.Limits, in.OutputSchema = o.caller.Agent, nil, nil
	in.Message.Model, in.Message.Tools = "", o.caller.MessageTools
	in.Message.Temperature, in.Message.Plan = o.caller.Temperature, o.plan
}

// applyLimits gives the turn what is left of the limits, and the models of the caller.
func (o *origin) applyLimits(cfg *turn.Config) {
	if o == nil {
		return
	}
	cfg.Limits, cfg.Answers = o.limits.Within(o.left), o.caller.Answers+1
	if len(o.caller.Models) > 0 {
		cfg.Models = o.caller.Models
		first := cfg.Models[0]
		cfg.Provider, cfg.Model, cfg.Mode = first.Provider, first.Name, first.Mode
	}
}

// narrow leaves the turn those of its tools that the caller has.
func (o *origin) narrow(cfg *turn.Config) {
	if o == nil {
		return
	}
	narrowBy(cfg, o.caller.Policy)
	leave(cfg, func(t turn.Tool) bool {
		_, has := o.caller.Find(t.ID)
		return has && cfg.Policy.Offered(t)
	})
}
