package activities

import (
	"encoding/json"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// planTools are the tools with which a model proposes a plan and reflects on its steps. Their calls use only the
// journal.
var planTools = []turn.Descriptor{
	planTool(plan.Tool, plan.Description, plan.Schema),
	planTool(plan.StepTool, plan.StepDescription, plan.StepSchema),
}

// planTool returns the descriptor of one of the planTools.
func planTool(id, description, schema string) turn.Descriptor {
	return turn.Descriptor{
		ID: id, Wire: turn.WireName(id), Description: description, Schema: json.RawMessage(schema),
		Activity: turn.ActivityLocal, Risk: turn.RiskLow, Repeatable: true, Effects: turn.Effects{ReadOnly: true},
		Hash: journal.HashOf([]byte(id + "\n" + description + "\n" + schema)),
	}
}

// addPlanTools adds the planTools to cfg, and returns the descriptors with theirs.
func (a *Activities) addPlanTools(cfg *turn.Config, descriptors []turn.Descriptor) []turn.Descriptor {
	cfg.Tools = append(cfg.Tools, a.toolsOf(planTools)...)
	return append(descriptors, planTools...)
}
