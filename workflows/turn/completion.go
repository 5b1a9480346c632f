package turn

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Completion is a model's complete response to one inference, before it is parsed.
type Completion struct {
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
	// ToolCalls are the calls as the provider sent them: without ID, and with the wire name in Tool.
	ToolCalls    []ToolCall `json:"tool_calls,omitempty"`
	FinishReason string     `json:"finish_reason"` // the provider's value: stop, tool_calls, length, content_filter
	// Refused is set if the provider marked Text as the model's refusal.
	Refused bool   `json:"refused,omitempty"`
	Usage   Usage  `json:"usage"`
	Model   string `json:"model,omitempty"` // as the provider names it
	// Plan means that no model made the completion: it has the calls that the turn's plan makes for its steps. They are
	// native calls in every mode.
	Plan bool `json:"plan,omitempty"`
	// Items are the parts of the message that the provider needs back in later prompts; nil if it needs none.
	Items *ProviderItems `json:"items,omitempty"`
	// Omitted are the settings that the provider refused, and without which the request was sent again.
	Omitted []string `json:"omitted,omitempty"`
	// Raw is the provider's response before parsing; for a stream, the JSON array of its events. The provider adapter
	// bounds its size.
	Raw json.RawMessage `json:"raw,omitempty"`
}

// planCallPrefix is the beginning of the IDs of calls that a plan makes. No call of a model has it: see Parse.
const planCallPrefix = "plan_"

// PlanCallID returns the WireID of a call that a plan makes in a step.
func PlanCallID(step, index int) string { return fmt.Sprintf("%s%d_%d", planCallPrefix, step, index) }

// ByPlan reports whether the turn's plan made the message's calls, in place of a model.
func (m Message) ByPlan() bool {
	return len(m.ToolCalls) > 0 && strings.HasPrefix(m.ToolCalls[0].WireID, planCallPrefix)
}
