package activities

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// maxToldTools bounds the tools that limitsPrompt names in one list.
const maxToldTools = 40

// limitsPrompt returns the part of the system prompt that tells the model the limits of a turn and which of its tools
// need approvals. It is empty for a turn without tools. It depends on the configuration and the user's message alone,
// and not on what is left of the limits, so that the turns of a session have the same prompt prefix.
func limitsPrompt(l turn.Limits, policy turn.Policy, descriptors []turn.Descriptor) string {
	if len(descriptors) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n\nA turn has at most %d steps (your completions), %d tool calls and %s of work", l.MaxSteps,
		l.MaxToolCalls, l.TurnTimeout)
	if l.MaxTokens > 0 {
		fmt.Fprintf(&b, ", and %d tokens", l.MaxTokens)
	}
	fmt.Fprintf(&b, ". The same calls with the same results %d times in a row end it. Answer before a limit does.",
		turn.MaxRepeats)
	var all, some []string
	for _, d := range descriptors {
		switch always, sometimes := policy.Asks(d.Pinned()); {
		case always:
			all = append(all, d.Wire)
		case sometimes:
			some = append(some, d.Wire)
		}
	}
	if len(all) > 0 {
		b.WriteString(" The user must approve each call of " + listed(all) + ".")
	}
	if len(some) > 0 {
		b.WriteString(" Depending on the arguments, the user must approve calls of " + listed(some) + ".")
	}
	return b.String()
}

// listed joins the first maxToldTools names.
func listed(names []string) string {
	if more := len(names) - maxToldTools; more > 0 {
		return fmt.Sprintf("%s and %d other tools", strings.Join(names[:maxToldTools], ", "), more)
	}
	return strings.Join(names, ", ")
}

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

// addPlanTools adds the planTools to cfg, and returns the descriptors with theirs and the part of the system prompt
// about them: those of a list that the model keeps, if confirm says so.
func (a *Activities) addPlanTools(cfg *turn.Config, descriptors []turn.Descriptor,
	confirm plan.Confirm) (all []turn.Descriptor, system string) {
	tools, system := planTools, plan.System
	if confirm == plan.Todo {
		tools, system = []turn.Descriptor{planTool(plan.Tool, plan.TodoDescription, plan.Schema), planTools[1]}, plan.TodoSystem
	}
	cfg.Tools = append(cfg.Tools, a.toolsOf(tools)...)
	return append(descriptors, tools...), "\n\n" + system
}

// outputSchema checks the output schema of a turn's input and returns it in canonical form. It returns nil if the
// input has none: the turn's answer is then free text.
func outputSchema(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	canonical, _, err := schema.Compile(raw)
	if err != nil {
		return nil, turn.NewError(turn.CodeInputInvalid, err, "the output schema cannot be used: "+err.Error())
	}
	return canonical, nil
}
