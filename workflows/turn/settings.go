package turn

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Effort is how hard a model reasons before it answers, on one scale for all providers. The empty Effort leaves it to
// the provider.
type Effort string

// The efforts, weakest first.
const (
	EffortOff     Effort = "off"
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
	EffortXHigh   Effort = "xhigh"
	EffortMax     Effort = "max"
)

var efforts = []Effort{EffortOff, EffortMinimal, EffortLow, EffortMedium, EffortHigh, EffortXHigh, EffortMax}

// Efforts returns all efforts, weakest first.
func Efforts() []Effort { return slices.Clone(efforts) }

// Known reports whether the effort is on the scale.
func (e Effort) Known() bool { return slices.Contains(efforts, e) }

// Over reports whether e is above limit. An empty limit is no limit.
func (e Effort) Over(limit Effort) bool {
	return limit != "" && slices.Index(efforts, e) > slices.Index(efforts, limit)
}

// The values of ModelSettings.ReasoningSummary and ModelSettings.ToolChoice that have a meaning of their own.
const (
	SummaryOff     = "off"
	SummaryAuto    = "auto"
	ChoiceAuto     = "auto"
	ChoiceNone     = "none"
	ChoiceRequired = "required"
)

// ModelSettings control how a model answers. They are the same for [llm], [[providers]] and [[agents]] in agent.toml
// and for a message; the comments of the fields are their documentation. The zero value leaves everything to the
// provider.
type ModelSettings struct {
	// How hard the model reasons before it answers: "off", "minimal", "low", "medium", "high", "xhigh" or "max"; empty
	// leaves it to the provider. A model that lacks a level gets the next lower one, or else its lowest.
	Effort Effort `json:"effort,omitempty" toml:"effort" enum:",off,minimal,low,medium,high,xhigh,max" example:"high"`
	// Whether the provider summarizes the reasoning for the user: "off", "auto", "concise" or "detailed". Empty means
	// "auto" if effort is set.
	ReasoningSummary string `json:"reasoning_summary,omitempty" toml:"reasoning_summary" enum:",off,auto,concise,detailed" example:"auto"`
	// How long answers are: "low", "medium" or "high". Models of OpenAI know it.
	Verbosity string `json:"verbosity,omitempty" toml:"verbosity" enum:",low,medium,high" example:"low"`
	// The provider's class of service, by its own name: "flex" or "priority" at OpenAI, "standard_only" at Anthropic.
	ServiceTier string `json:"service_tier,omitempty" toml:"service_tier" maxbytes:"32" example:"flex"`
	// Sampling temperature from 0 to 2; the provider's default if it is not set. Many models take none while they reason.
	Temperature *float64 `json:"temperature,omitempty" toml:"temperature" min:"0" max:"2" example:"0.2"`
	// Nucleus sampling: only the most likely tokens with together this probability are drawn. Models that take no
	// temperature do not take it either.
	TopP *float64 `json:"top_p,omitempty" toml:"top_p" min:"0" max:"1" example:"0.9"`
	// Texts that end an answer, 4 at most. The Responses API has none.
	Stop []string `json:"stop,omitempty" toml:"stop" example:"END"`
	// Makes sampling repeatable, as far as the provider can. Only Chat Completions have it.
	Seed *int `json:"seed,omitempty" toml:"seed" min:"0" example:"7"`
	// Whether one answer may call several tools; the provider's default if it is not set.
	ParallelToolCalls *bool `json:"parallel_tool_calls,omitempty" toml:"parallel_tool_calls" example:"false"`
	// What the first answer of a turn does: "auto" lets the model decide, "required" makes it call a tool, "none" keeps
	// it from calling one, and the name of a tool, such as "local/read_file", makes it call that one. Claude cannot be
	// made to call a tool while it thinks.
	ToolChoice string `json:"tool_choice,omitempty" toml:"tool_choice" maxbytes:"200" example:"auto"`
}

// Over returns s with what it does not set taken from base.
func (s ModelSettings) Over(base ModelSettings) ModelSettings {
	s.Effort = cmp.Or(s.Effort, base.Effort)
	s.ReasoningSummary = cmp.Or(s.ReasoningSummary, base.ReasoningSummary)
	s.Verbosity = cmp.Or(s.Verbosity, base.Verbosity)
	s.ServiceTier = cmp.Or(s.ServiceTier, base.ServiceTier)
	s.Temperature = cmp.Or(s.Temperature, base.Temperature)
	s.TopP = cmp.Or(s.TopP, base.TopP)
	if len(s.Stop) == 0 {
		s.Stop = base.Stop
	}
	s.Seed = cmp.Or(s.Seed, base.Seed)
	s.ParallelToolCalls = cmp.Or(s.ParallelToolCalls, base.ParallelToolCalls)
	s.ToolChoice = cmp.Or(s.ToolChoice, base.ToolChoice)
	return s
}

// Empty reports whether nothing is set. Its name is not IsZero, which structs that embed s would have, too.
func (s ModelSettings) Empty() bool {
	return len(s.Stop) == 0 && s.Effort == "" && s.ReasoningSummary == "" && s.Verbosity == "" && s.ServiceTier == "" &&
		s.Temperature == nil && s.TopP == nil && s.Seed == nil && s.ParallelToolCalls == nil && s.ToolChoice == ""
}

// ForcesTool reports whether the settings make the model call a tool.
func (s ModelSettings) ForcesTool() bool {
	return s.ToolChoice != "" && s.ToolChoice != ChoiceAuto && s.ToolChoice != ChoiceNone
}

// The bounds of Check. OpenAI accepts four stop texts.
const (
	maxTemperature = 2
	maxStops       = 4
	maxStopBytes   = 200
	maxWordBytes   = 200
)

// Check returns an error for a value that no provider accepts. Its text begins with the name of the setting.
func (s ModelSettings) Check() error {
	within := func(n *float64, most float64) bool { return n == nil || *n >= 0 && *n <= most } // false for NaN
	switch {
	case s.Effort != "" && !s.Effort.Known():
		return fmt.Errorf("effort is %q; it must be off, minimal, low, medium, high, xhigh or max", Truncate(string(s.Effort), 40))
	case !slices.Contains([]string{"", SummaryOff, SummaryAuto, "concise", "detailed"}, s.ReasoningSummary):
		return fmt.Errorf("reasoning_summary is %q; it must be off, auto, concise or detailed", Truncate(s.ReasoningSummary, 40))
	case !slices.Contains([]string{"", "low", "medium", "high"}, s.Verbosity):
		return fmt.Errorf("verbosity is %q; it must be low, medium or high", Truncate(s.Verbosity, 40))
	case !within(s.Temperature, maxTemperature):
		return fmt.Errorf("temperature is %g; it must be from 0 to %d", *s.Temperature, maxTemperature)
	case !within(s.TopP, 1):
		return fmt.Errorf("top_p is %g; it must be from 0 to 1", *s.TopP)
	case s.Seed != nil && *s.Seed < 0:
		return fmt.Errorf("seed is %d; it must not be negative", *s.Seed)
	case len(s.ServiceTier) > maxWordBytes || len(s.ToolChoice) > maxWordBytes:
		return fmt.Errorf("service_tier or tool_choice is longer than %d bytes", maxWordBytes)
	}
	return s.checkStops()
}

// checkStops checks Stop.
func (s ModelSettings) checkStops() error {
	if len(s.Stop) > maxStops {
		return fmt.Errorf("stop has %d texts; the maximum is %d", len(s.Stop), maxStops)
	}
	for _, text := range s.Stop {
		if strings.TrimSpace(text) == "" || len(text) > maxStopBytes {
			return fmt.Errorf("stop is %q; each text must have from 1 to %d bytes, and not only white space",
				Truncate(text, 40), maxStopBytes)
		}
	}
	return nil
}
