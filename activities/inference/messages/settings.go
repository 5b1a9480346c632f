package messages

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/workflows/turn"
)

// The betas of the API that requests use, by their names in the header anthropic-beta.
const (
	betaInterleaved = "interleaved-thinking-2025-05-14"      // thinking between calls; adaptive thinking has it already
	betaBinding     = "thinking-binding-controls-2026-08-01" // block_binding
)

// thinking is the field thinking.
type thinking struct {
	Type    string   `json:"type"` // adaptive, enabled, disabled or between_tools
	Budget  int      `json:"budget_tokens,omitempty"`
	Display string   `json:"display,omitempty"`
	Binding *binding `json:"block_binding,omitempty"`
}

// binding says what happens to a block of thinking after which the conversation has changed, because it was compacted
// or because the tools or the day are others: without it, the API refuses the request.
type binding struct {
	PrefixMismatch string `json:"prefix_mismatch_behavior"`
}

type toolChoice struct {
	Type string `json:"type"` // auto, any, tool or none
	Name string `json:"name,omitempty"`
	One  bool   `json:"disable_parallel_tool_use,omitempty"`
}

// applySettings sets the request's fields to the prompt's settings, and returns the header that they need. The API has
// no seed and no verbosity.
func (r *request) applySettings(p turn.Prompt, rules inference.Rules, output *outputConfig) http.Header {
	s := p.Settings
	r.Temperature, r.TopP, r.Stop, r.ServiceTier = s.Temperature, s.TopP, s.Stop, s.ServiceTier
	if len(p.Tools) > 0 {
		r.ToolChoice = chooseTool(s)
	}
	r.Thinking = thinkingOf(p, r.MaxTokens)
	if r.Thinking != nil && rules.Quirks.NoBinding {
		r.Thinking.Binding = nil
	}
	if t := r.Thinking; t != nil && t.Type == "enabled" && r.lacksThinking() {
		r.Thinking = nil
	}
	if s.Effort != "" && s.Effort != turn.EffortOff && p.Reasoning.Format != turn.ThinkingBudget {
		output.Effort = p.Reasoning.Word(s.Effort)
	}
	header := http.Header{}
	switch t := r.Thinking; {
	case t != nil && t.Type == "enabled" && len(p.Tools) > 0:
		header.Set("Anthropic-Beta", betaInterleaved)
	case t != nil && t.Binding != nil:
		header.Set("Anthropic-Beta", betaBinding)
	}
	return header
}

// chooseTool returns the field tool_choice, or nil for the API's default.
func chooseTool(s turn.ModelSettings) *toolChoice {
	one := s.ParallelToolCalls != nil && !*s.ParallelToolCalls
	switch s.ToolChoice {
	case "", turn.ChoiceAuto:
		if one {
			return &toolChoice{Type: "auto", One: true}
		}
		return nil
	case turn.ChoiceNone:
		return &toolChoice{Type: "none"}
	case turn.ChoiceRequired:
		return &toolChoice{Type: "any", One: one}
	}
	return &toolChoice{Type: "tool", Name: turn.WireName(s.ToolChoice), One: one}
}

// thinkingOf returns the field thinking for a request with this maxTokens; nil leaves it to the model. Models whose
// thinking is bound to the messages before it always get one, because of its binding.
func thinkingOf(p turn.Prompt, maxTokens int) *thinking {
	s, r := p.Settings, p.Reasoning
	display := "summarized"
	if s.ReasoningSummary == turn.SummaryOff {
		display = "omitted"
	}
	switch {
	case s.Effort == turn.EffortOff && r.Efforts[turn.EffortOff] == "between_tools":
		return &thinking{Type: "between_tools"}
	case s.Effort == turn.EffortOff:
		return &thinking{Type: "disabled"}
	case r.Format == turn.ThinkingBudget && s.Effort != "":
		budget := min(turn.ThinkingTokens(s.Effort), maxTokens-turn.MinAnswerTokens)
		if budget < turn.MinThinkingTokens {
			return nil
		}
		return &thinking{Type: "enabled", Budget: budget, Display: display}
	case r.Format == turn.ThinkingBudget, s.Effort == "" && s.ReasoningSummary == "" && !r.Bound:
		return nil
	}
	t := &thinking{Type: "adaptive"}
	if s.Effort != "" || s.ReasoningSummary != "" {
		t.Display = display
	}
	if r.Bound {
		t.Binding = &binding{PrefixMismatch: "drop_block"}
	}
	return t
}

// lacksThinking reports whether the request goes on after calls that the model made without thinking, or whose thinking
// the transcript does not have: those of a fallback, for instance. The API then refuses a budget for thinking.
func (r *request) lacksThinking() bool {
	last := len(r.Messages) - 1
	if last < 1 || !slices.ContainsFunc(r.Messages[last].Content, func(b any) bool { _, ok := b.(toolResult); return ok }) {
		return false
	}
	calls := r.Messages[last-1].Content
	if len(calls) == 0 {
		return false
	}
	_, thought := calls[0].(json.RawMessage) // an item of the provider
	return !thought
}
