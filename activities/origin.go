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

// origin describes where the answer of a background subagent comes from. The turn that begins with the answer has at
// most the permissions of the turn that called the subagent, and what is left of the limits of the user's message.
type origin struct {
	caller turn.Config    // of the turn that called the subagent
	plan   plan.Confirm   // what users confirm of the caller's plan
	limits turn.Limits    // of the turn that began with the user's message
	left   turn.Allowance // of limits; zero if the journal does not know what was spent
}

// originOf returns the origin of a new turn's message if it is the answer of a subagent, and nil for other messages.
// The ID only marks the message as an answer; the journal must have that answer, because a client can send any ID.
func (a *Activities) originOf(ctx context.Context, in workflows.BeginInput) (*origin, error) {
	if _, ok := turn.AnsweringSubagent(in.Message.ID); !ok {
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
	caller, err := a.frozen.Config(ctx, from.Turn) // the turn that called the subagent
	if err != nil {
		return nil, err
	}
	root, err := a.frozen.Config(ctx, from.Root) // the turn that began with the user's message
	if err != nil {
		return nil, err
	}
	promptConfig, err := a.frozen.PromptConfig(ctx, caller.PromptConfig)
	if err != nil {
		return nil, err
	}
	o := &origin{caller: caller, plan: promptConfig.Plan, limits: root.Limits}
	if from.Known {
		o.left = root.Limits.Left(from.Spent)
	}
	return o, nil
}

// apply replaces the choices of the input (agent, limits, model, tools, temperature, plan, output schema, context) by
// those of the caller's turn. For a nil origin it does nothing.
func (o *origin) apply(in *workflows.BeginInput) {
	if o == nil {
		return
	}
	in.Agent, in.Limits, in.OutputSchema, in.Context = o.caller.Agent, nil, nil, o.caller.Context
	in.Message.Model, in.Message.Tools = "", o.caller.MessageTools
	in.Message.Temperature, in.Message.Plan = o.caller.Temperature, o.plan
}

// applyLimits sets the turn's limits to what is left for it, its models to those of the caller, and cfg.Answers to one
// more than the caller's. For a nil origin it does nothing.
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

// narrow removes the turn's tools that the caller does not have, and adds what the caller's policy denies or asks for.
// For a nil origin it does nothing.
func (o *origin) narrow(cfg *turn.Config) {
	if o == nil {
		return
	}
	inheritDenyAndAsk(cfg, o.caller.Policy)
	keepTools(cfg, func(t turn.Tool) bool {
		_, has := o.caller.Find(t.ID)
		return has && cfg.Policy.Offered(t)
	})
}
