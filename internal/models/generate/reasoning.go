package main

import (
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// reasoning returns how a model reasons. What the package does not have is from the vendors' documentation, as of
// autumn 2026: the default effort, when sampling is refused, and what Claude does with tools.
func reasoning(vendor string, e entry) turn.Reasoning {
	if !e.Reasoning {
		return turn.Reasoning{Efforts: map[turn.Effort]string{turn.EffortOff: ""}}
	}
	switch vendor {
	case "anthropic":
		return claude(e)
	case "openai":
		return openAI(e)
	case "google":
		return gemini(e)
	}
	r := turn.Reasoning{Efforts: levels(e), WantsContent: e.Compat.WantsContent}
	switch f := turn.ThinkingFormat(e.Compat.Thinking); f {
	case turn.ThinkingDeepSeek, turn.ThinkingZAI:
		r.Format, r.WantsContent = f, r.WantsContent || f == turn.ThinkingDeepSeek
		if e.Compat.Effort != nil && !*e.Compat.Effort { // it can only be switched on and off
			_, off := r.Efforts[turn.EffortOff]
			r.Efforts = map[turn.Effort]string{turn.EffortHigh: ""}
			if off {
				r.Efforts[turn.EffortOff] = ""
			}
		}
	}
	return r
}

// levels returns the levels of the package's map. A level that the map lacks has its own name, but xhigh and max are
// then unknown to the model. Without a map nothing is known, unless the model's reasoning can be switched.
func levels(e entry) map[turn.Effort]string {
	if e.Levels == nil && e.Compat.Thinking == "" && !e.Compat.Adaptive {
		return nil
	}
	out := map[turn.Effort]string{}
	for _, level := range turn.Efforts() {
		word, ok := e.Levels[level]
		switch {
		case ok && word != nil:
			out[level] = strings.ToLower(*word)
		case ok, level == turn.EffortXHigh, level == turn.EffortMax:
		case level == turn.EffortOff:
			out[level] = "none"
		default:
			out[level] = string(level)
		}
	}
	return out
}

// claude returns how a model of Anthropic reasons. Up to 4.5, its reasoning has a budget of tokens; from 4.6 on the
// model decides, guided by the effort, which has no level "minimal".
func claude(e entry) turn.Reasoning {
	if !e.Compat.Adaptive {
		return turn.Reasoning{Format: turn.ThinkingBudget, Default: turn.EffortOff, Sampling: turn.SamplingUnthinking,
			NoForcedTool: true, Efforts: map[turn.Effort]string{turn.EffortOff: "disabled", turn.EffortMinimal: "",
				turn.EffortLow: "", turn.EffortMedium: "", turn.EffortHigh: ""}}
	}
	r := turn.Reasoning{Efforts: levels(e), Sampling: turn.SamplingNever, Bound: e.Compat.Bound,
		NoForcedTool: e.ID != "claude-fable-5", Default: turn.EffortHigh}
	delete(r.Efforts, turn.EffortMinimal)
	if _, ok := r.Efforts[turn.EffortOff]; ok {
		r.Efforts[turn.EffortOff] = "disabled"
	}
	switch e.ID {
	case "claude-opus-4-6", "claude-sonnet-4-6":
		r.Default, r.Sampling = turn.EffortOff, turn.SamplingUnthinking
	case "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5":
		r.Default = turn.EffortOff
	case "claude-opus-5-5", "claude-haiku-5-5":
		r.Default = turn.EffortMedium
	case "claude-sonnet-5-5":
		r.Efforts[turn.EffortOff] = "between_tools" // the least that it can do
	}
	return r
}

// openAI returns how a model of OpenAI reasons.
func openAI(e entry) turn.Reasoning {
	r := turn.Reasoning{Efforts: levels(e), Default: turn.EffortMedium, Sampling: turn.SamplingWithEffort0}
	first := []string{"gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5-pro"}
	if slices.Contains(first, e.ID) || strings.HasPrefix(e.ID, "o") {
		r.Sampling = turn.SamplingNever
	}
	for _, prefix := range []string{"gpt-5.1", "gpt-5.2", "gpt-5.3", "gpt-5.4", "gpt-5.5"} {
		if _, off := r.Efforts[turn.EffortOff]; off && strings.HasPrefix(e.ID, prefix) {
			r.Default = turn.EffortOff
		}
	}
	return r
}

// gemini returns how a model of Google reasons at the endpoint that is compatible with OpenAI's.
func gemini(e entry) turn.Reasoning {
	r := turn.Reasoning{Efforts: levels(e)}
	if strings.HasPrefix(e.ID, "gemini-2.5-") {
		r.Efforts = map[turn.Effort]string{turn.EffortLow: "low", turn.EffortMedium: "medium", turn.EffortHigh: "high"}
		if !strings.HasPrefix(e.ID, "gemini-2.5-pro") {
			r.Efforts[turn.EffortOff] = "none"
		}
	}
	return r
}
