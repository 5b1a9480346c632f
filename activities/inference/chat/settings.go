package chat

import (
	"errors"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"github.com/everturn/everturn/workflows/turn"
)

// thinkingFields are the fields with which providers other than OpenAI take the effort.
type thinkingFields struct {
	Thinking       *thinking  `json:"thinking,omitempty"`
	Reasoning      *reasoning `json:"reasoning,omitempty"`
	EnableThinking *bool      `json:"enable_thinking,omitempty"`
}

type thinking struct {
	Type          string `json:"type"` // enabled, disabled
	ClearThinking *bool  `json:"clear_thinking,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Enabled *bool  `json:"enabled,omitempty"`
}

// minSampling is sent instead of a temperature or top_p of 0, which go-openai omits from requests. The model's answers
// are as deterministic as with 0. It is not as small as math.SmallestNonzeroFloat32, which go-openai recommends,
// because servers that divide by the temperature must get finite numbers.
const minSampling = 1e-6

// applySettings sets the request's fields to the prompt's settings, and returns those that go-openai's type lacks.
func applySettings(request *openai.ChatCompletionRequest, p turn.Prompt) thinkingFields {
	s := p.Settings
	if s.Temperature != nil {
		request.Temperature = max(float32(*s.Temperature), minSampling)
	}
	if s.TopP != nil {
		request.TopP = max(float32(*s.TopP), minSampling)
	}
	request.Stop, request.Seed, request.Verbosity = s.Stop, s.Seed, s.Verbosity
	request.ServiceTier = openai.ServiceTier(s.ServiceTier)
	if len(p.Tools) > 0 {
		if s.ParallelToolCalls != nil {
			request.ParallelToolCalls = *s.ParallelToolCalls
		}
		request.ToolChoice = toolChoice(s)
	}
	if s.Effort == "" {
		return thinkingFields{}
	}
	return applyEffort(request, p)
}

// toolChoice returns the field tool_choice, or nil for the provider's default.
func toolChoice(s turn.ModelSettings) any {
	switch s.ToolChoice {
	case "":
		return nil
	case turn.ChoiceAuto, turn.ChoiceNone, turn.ChoiceRequired:
		return s.ToolChoice
	}
	return openai.ToolChoice{Type: openai.ToolTypeFunction,
		Function: openai.ToolFunction{Name: turn.WireName(s.ToolChoice)}}
}

// applyEffort sets the fields for the effort in the format of the model's provider.
func applyEffort(request *openai.ChatCompletionRequest, p turn.Prompt) (f thinkingFields) {
	thinks, word := p.Settings.Effort != turn.EffortOff, p.Reasoning.Word(p.Settings.Effort)
	switch p.Reasoning.Format {
	case turn.ThinkingDeepSeek, turn.ThinkingZAI:
		f.Thinking = &thinking{Type: "disabled"}
		if thinks {
			f.Thinking.Type, request.ReasoningEffort = "enabled", word
		}
		if thinks && p.Reasoning.Format == turn.ThinkingZAI {
			f.Thinking.ClearThinking = new(bool) // false: the provider keeps the reasoning that is sent back
		}
	case turn.ThinkingOpenRouter:
		f.Reasoning = &reasoning{Effort: word}
	case turn.ThinkingTogether:
		if f.Reasoning = (&reasoning{Enabled: &thinks}); thinks {
			request.ReasoningEffort = word
		}
	case turn.ThinkingQwen:
		f.EnableThinking = &thinks
	case turn.ThinkingChatTemplate:
		request.ChatTemplateKwargs = map[string]any{"enable_thinking": thinks}
	default:
		request.ReasoningEffort = word
	}
	return f
}

// check returns an error for a request that the provider would refuse, as far as go-openai knows it.
func check(request openai.ChatCompletionRequest) error {
	if request.ReasoningEffort == openai.ReasoningEffortNone { // go-openai refuses sampling also for models that take it then
		request.Temperature, request.TopP = 0, 0
	}
	err := openai.NewReasoningValidator().Validate(request)
	// Models of gpt-5.6 refuse tools while they reason, which go-openai does not know.
	reasons := strings.HasPrefix(request.Model, "gpt-5.6-") && request.ReasoningEffort != openai.ReasoningEffortNone
	if err == nil && reasons && len(request.Tools) > 0 {
		err = openai.ErrReasoningToolsRequireResponses
	}
	if errors.Is(err, openai.ErrReasoningToolsRequireResponses) {
		return turn.NewError(turn.CodeLLMRejected, err, "this model takes tools only through the Responses API; "+
			`set api = "responses" for its provider, effort = "off" if the model has that, or choose another model, or `+
			`describe it under [[models]] with capabilities without "tool_use"`)
	}
	return err
}
