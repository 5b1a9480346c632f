package responses

import (
	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/workflows/turn"
)

// applySettings sets the request's fields to the prompt's settings. The API has no stop and no seed.
func applySettings(request *plainRequest, p turn.Prompt) {
	s := p.Settings
	request.Temperature, request.TopP = single(s.Temperature), single(s.TopP)
	request.ServiceTier = s.ServiceTier
	if s.Verbosity != "" {
		request.Text = &openai.ResponseTextConfig{Verbosity: s.Verbosity}
	}
	if len(p.Tools) > 0 {
		request.ParallelToolCalls, request.ToolChoice = s.ParallelToolCalls, toolChoice(s)
	}
	r := openai.ResponseReasoning{}
	if s.Effort != "" {
		r.Effort = p.Reasoning.Word(s.Effort)
	}
	if s.ReasoningSummary != turn.SummaryOff && s.Effort != turn.EffortOff {
		r.Summary = s.ReasoningSummary
	}
	if r != (openai.ResponseReasoning{}) {
		request.Reasoning = &r
	}
}

// single returns a number in the precision of go-openai's type.
func single(n *float64) *float32 {
	if n == nil {
		return nil
	}
	f := float32(*n)
	return &f
}

// toolChoice returns the field tool_choice, or nil for the provider's default.
func toolChoice(s turn.ModelSettings) any {
	switch s.ToolChoice {
	case "":
		return nil
	case turn.ChoiceAuto, turn.ChoiceNone, turn.ChoiceRequired:
		return s.ToolChoice
	}
	return map[string]string{"type": "function", "name": turn.WireName(s.ToolChoice)}
}
