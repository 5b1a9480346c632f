package turn

import (
	"fmt"
	"slices"
	"strings"
)

// ThinkingFormat is how a model's API takes the effort.
type ThinkingFormat string

// The formats. The empty one is that of the wire API: reasoning_effort in Chat Completions, reasoning.effort in
// Responses, and output_config.effort with adaptive thinking in Messages.
const (
	ThinkingBudget       ThinkingFormat = "budget"        // Messages: thinking.budget_tokens
	ThinkingDeepSeek     ThinkingFormat = "deepseek"      // Chat: thinking.type, and reasoning_effort
	ThinkingZAI          ThinkingFormat = "zai"           // Chat: the same, with clear_thinking
	ThinkingOpenRouter   ThinkingFormat = "openrouter"    // Chat: reasoning.effort
	ThinkingTogether     ThinkingFormat = "together"      // Chat: reasoning.enabled, and reasoning_effort
	ThinkingQwen         ThinkingFormat = "qwen"          // Chat: enable_thinking
	ThinkingChatTemplate ThinkingFormat = "chat-template" // Chat: chat_template_kwargs.enable_thinking
)

// Sampling says when a model takes a temperature and top_p.
type Sampling string

// The values of Sampling. Empty means always.
const (
	SamplingNever       Sampling = "never"
	SamplingWithEffort0 Sampling = "off"   // only if effort is off
	SamplingUnthinking  Sampling = "unset" // only if effort is off or not set
)

// Reasoning describes how a model reasons, and which settings it accepts. The zero value means that nothing is known.
type Reasoning struct {
	// Efforts are the levels that the model accepts, each with the provider's word for it. A model that does not reason
	// has only "off", with the word "".
	Efforts map[Effort]string `json:"efforts,omitempty"`
	// Default is the effort without a setting; empty if it is not known.
	Default  Effort         `json:"default,omitempty"`
	Format   ThinkingFormat `json:"format,omitempty"`
	Sampling Sampling       `json:"sampling,omitempty"`
	// Bound means that the provider binds reasoning to the messages before it, and refuses it after other ones: see
	// "preserved thinking" of Anthropic.
	Bound bool `json:"bound,omitempty"`
	// NoForcedTool means that the model cannot be made to call a tool while it reasons.
	NoForcedTool bool `json:"no_forced_tool,omitempty"`
	// WantsContent means that each assistant message with calls needs the field reasoning_content, even if it is empty.
	WantsContent bool `json:"wants_content,omitempty"`
}

// Known reports whether the model's levels are known.
func (r Reasoning) Known() bool { return len(r.Efforts) > 0 }

// Reasons reports whether the model may reason: false only if it is known not to.
func (r Reasoning) Reasons() bool {
	_, off := r.Efforts[EffortOff]
	return !(off && len(r.Efforts) == 1)
}

// Word returns the provider's word for an effort. A model of which nothing is known gets the effort as written, and
// "none" for "off".
func (r Reasoning) Word(e Effort) string {
	switch {
	case r.Known():
		return r.Efforts[e]
	case e == EffortOff:
		return "none"
	}
	return string(e)
}

// EffortChoice is what became of the effort of a turn: what was asked for, what is sent, and why that is not the same.
// Empty means the provider's default.
type EffortChoice struct {
	Asked Effort `json:"asked,omitempty"`
	Sent  Effort `json:"sent,omitempty"`
	Why   string `json:"why,omitempty"`
}

// OmittedSetting is a setting that is not sent to the model, and the reason.
type OmittedSetting struct {
	Setting string `json:"setting"`
	Why     string `json:"why"`
}

// FittedSettings report the settings of a turn's inferences with one model.
type FittedSettings struct {
	Effort  *EffortChoice    `json:"effort,omitempty"`
	Omitted []OmittedSetting `json:"omitted,omitempty"`
}

// String describes in one line what differs from what was asked; empty if nothing does.
func (f FittedSettings) String() string {
	var parts []string
	if e := f.Effort; e != nil && e.Why != "" {
		sent := string(e.Sent)
		if sent == "" {
			sent = "left to the provider"
		}
		parts = append(parts, fmt.Sprintf("effort: %s (%s)", sent, e.Why))
	}
	for _, o := range f.Omitted {
		parts = append(parts, fmt.Sprintf("%s left out: %s", o.Setting, o.Why))
	}
	return strings.Join(parts, "; ")
}

// Fit sets m.Settings to what inferences with the model send: asked, and for what it does not set m.Settings, lowered
// to limit and to what the model accepts, and without the settings that it refuses. m.Fitted says what differs. The
// error is for a user: a setting of asked that the model refuses. If lenient is set, as for a fallback, such a setting
// is left out instead.
func (m *Model) Fit(asked ModelSettings, limit Effort, lenient bool) error {
	all := asked.Over(m.Settings)
	f := fitting{model: *m, asked: asked, lenient: lenient, settings: all}
	f.effort(limit)
	f.sampling()
	f.ofAPI()
	if f.settings.ForcesTool() && m.Reasoning.NoForcedTool && f.thinks() {
		f.omit("tool_choice", asked.ToolChoice != "", "it cannot be made to call a tool while it thinks; set effort = "+
			`"off" if the model has that, or output_schema for the form of the answer`)
		f.settings.ToolChoice = ""
	}
	if f.refused != nil {
		return f.refused
	}
	m.Settings, m.Fitted = f.settings, f.report
	return nil
}

// fitting is the state of Model.Fit.
type fitting struct {
	model    Model
	asked    ModelSettings
	lenient  bool
	settings ModelSettings
	report   FittedSettings
	refused  *Error
}

// effort applies the limit and the model's levels.
func (f *fitting) effort(limit Effort) {
	r, s := f.model.Reasoning, &f.settings
	choice := EffortChoice{Asked: s.Effort}
	overDefault := s.Effort == "" && limit != "" && r.Known() && r.Reasons() && (r.Default == "" || r.Default.Over(limit))
	if s.Effort.Over(limit) || overDefault {
		s.Effort, choice.Why = limit, "policy.max_effort"
	}
	if s.Effort != "" && r.Known() {
		if level := r.nearest(s.Effort); level != s.Effort {
			s.Effort = level
			choice.Why = fmt.Sprintf("%s takes %s", f.model.Name, r.levels())
		}
		if !r.Reasons() {
			s.Effort = "" // a model that does not reason has no field for it
			if choice.Asked != EffortOff {
				choice.Why = f.model.Name + " does not reason"
			} else {
				choice.Why = ""
			}
		}
	}
	if choice.Sent = s.Effort; choice.Asked != "" || choice.Sent != "" {
		f.report.Effort = &choice
	}
	if s.Effort == "" || s.Effort == EffortOff {
		return
	}
	if s.ReasoningSummary == "" {
		s.ReasoningSummary = SummaryAuto
	}
}

// nearest returns the model's level for an effort: itself, or the next lower one with which it reasons, or else the
// lowest of these. A model that cannot switch its reasoning off has its lowest level for "off".
func (r Reasoning) nearest(e Effort) Effort {
	if _, ok := r.Efforts[e]; ok {
		return e
	}
	levels := r.Levels()
	if levels[0] == EffortOff && len(levels) > 1 {
		levels = levels[1:]
	}
	for _, level := range slices.Backward(levels) {
		if !level.Over(e) {
			return level
		}
	}
	return levels[0]
}

// levels lists the model's levels, weakest first.
func (r Reasoning) levels() string {
	var out []string
	for _, e := range r.Levels() {
		out = append(out, string(e))
	}
	return strings.Join(out, ", ")
}

// Levels returns the model's levels, weakest first; nil if they are not known.
func (r Reasoning) Levels() (out []Effort) {
	for _, e := range efforts {
		if _, ok := r.Efforts[e]; ok {
			out = append(out, e)
		}
	}
	return out
}

// thinks reports whether the model may reason with these settings.
func (f *fitting) thinks() bool {
	if f.settings.Effort == "" {
		return f.model.Reasoning.Default != EffortOff
	}
	return f.settings.Effort != EffortOff
}

// sampling removes the temperature and top_p if the model refuses them.
func (f *fitting) sampling() {
	s := &f.settings
	var why string
	switch r := f.model.Reasoning; {
	case r.Sampling == SamplingNever:
		why = "it takes none"
	case r.Sampling == SamplingWithEffort0 && s.Effort != EffortOff:
		why = `it takes none unless effort is "off"`
	case r.Sampling == SamplingUnthinking && s.Effort != EffortOff && s.Effort != "":
		why = "it takes none while it reasons"
	default:
		return
	}
	if s.Temperature != nil {
		f.omit("temperature", f.asked.Temperature != nil, why)
	}
	if s.TopP != nil {
		f.omit("top_p", f.asked.TopP != nil, why)
	}
	s.Temperature, s.TopP = nil, nil
}

// ofAPI removes the settings that the model's wire API does not have.
func (f *fitting) ofAPI() {
	s, api := &f.settings, f.model.API
	name := map[API]string{APIResponses: "the Responses API has none", APIMessages: "the Messages API has none"}[api]
	if api == APIResponses && len(s.Stop) > 0 {
		f.omit("stop", len(f.asked.Stop) > 0, name)
		s.Stop = nil
	}
	if (api == APIResponses || api == APIMessages) && s.Seed != nil {
		f.omit("seed", f.asked.Seed != nil, name)
		s.Seed = nil
	}
	if api == APIMessages && s.Verbosity != "" {
		f.omit("verbosity", f.asked.Verbosity != "", name)
		s.Verbosity = ""
	}
}

// omit records that a setting is left out. If the user asked for it and the fit is not lenient, it is an error.
func (f *fitting) omit(setting string, asked bool, why string) {
	if asked && !f.lenient && f.refused == nil {
		f.refused = NewError(CodeInputInvalid, nil, fmt.Sprintf("%s: the model %s refuses it: %s. Nothing was done; leave it out, "+
			"or choose another model", setting, Truncate(f.model.Name, 80), why))
	}
	f.report.Omitted = append(f.report.Omitted, OmittedSetting{Setting: setting, Why: why})
}

// The tokens of thinking and of the answer after it, for models whose thinking has a budget. They are those of pi-ai
// 1.5.2 (dist/api/simple-options.js, MIT).
const (
	MinThinkingTokens = 1024 // the API accepts no less
	MinAnswerTokens   = 1024
)

// ThinkingTokens returns the budget of thinking for an effort.
func ThinkingTokens(e Effort) int {
	switch e {
	case "", EffortOff:
		return 0
	case EffortMinimal:
		return MinThinkingTokens
	case EffortLow:
		return 2048
	case EffortMedium:
		return 8192
	}
	return 16384
}

// defaultOutput and maxOutput are the limits of output tokens of a model that reasons, if the configuration sets none:
// they include the reasoning.
const (
	defaultOutput = 32_000
	maxOutput     = 64_000
)

// OutputTokens returns the limit of output tokens of an inference with this model; configured is that of the
// configuration, and 0 leaves the limit to the provider. Thinking that has a budget of its own comes on top. The
// Messages API requires a limit, and one for a model that reasons hard must leave room for the answer.
func (m Model) OutputTokens(configured int) int {
	most := int(m.MaxOutputTokens)
	if most == 0 {
		most = defaultOutput
	}
	e := m.Settings.Effort
	switch {
	case e == "" || e == EffortOff:
		return configured
	case configured > 0 && m.Reasoning.Format == ThinkingBudget:
		return max(configured, min(configured+ThinkingTokens(e), most))
	case configured == 0 && m.API == APIMessages:
		return min(most, maxOutput)
	}
	return configured
}
