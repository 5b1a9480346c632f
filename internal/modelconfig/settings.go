package modelconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/workflows/turn"
)

// CheckSettings returns a *config.Error if turns could never use a model setting of the configuration: one of [llm] or
// [[providers]] that all models of the configured providers refuse, or one of an agent that the agent's own model
// refuses. Otherwise, notes say which of them the models in use do not get, and why.
func CheckSettings(all models.Models, cfg config.Config) (notes []string, err error) {
	if all.Endpoints[0].ID == models.Demo {
		return nil, nil
	}
	chain, err := Chain(all, cfg, "")
	if err != nil {
		return nil, err
	}
	var problems []config.Problem
	refuse := func(key, why string) {
		problems = append(problems, config.Problem{Key: key, Message: key + " cannot be used: " + why})
	}
	shared := map[string]turn.ModelSettings{"llm": cfg.LLM.ModelSettings}
	for setting := range refusedByAll(all, cfg.LLM.ModelSettings, "") {
		refuse("llm."+setting, "no model of the configured providers takes it; leave it out")
	}
	for i, p := range cfg.Providers {
		key := fmt.Sprintf("providers[%d]", i)
		for setting := range refusedByAll(all, p.ModelSettings, string(p.ID)) {
			refuse(key+"."+setting, "no model of the provider takes it; leave it out")
		}
		if string(p.ID) == chain[0].Provider {
			shared[key] = p.ModelSettings
		}
	}
	for i, a := range cfg.Agents {
		own, err := Chain(all, cfg, a.Model)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.ID, err)
		}
		for _, o := range omitted(own[0], a.ModelSettings, cfg.Policy.MaxEffort) {
			if sets(a.ModelSettings, o.Setting) {
				refuse(fmt.Sprintf("agents[%d].%s", i, o.Setting), fmt.Sprintf("the model %s:%s refuses it: %s; leave it out, or "+
					"give the agent another model", own[0].Provider, own[0].Name, o.Why))
			}
		}
	}
	if len(problems) > 0 {
		slices.SortFunc(problems, func(a, b config.Problem) int { return strings.Compare(a.Key, b.Key) })
		return nil, &config.Error{Problems: problems}
	}
	for _, o := range omitted(chain[0], turn.ModelSettings{}, cfg.Policy.MaxEffort) {
		for _, key := range slices.Sorted(maps.Keys(shared)) {
			if sets(shared[key], o.Setting) {
				notes = append(notes, fmt.Sprintf("%s.%s is not sent to %s:%s: %s", key, o.Setting, chain[0].Provider,
					chain[0].Name, o.Why))
			}
		}
	}
	return notes, nil
}

// omitted returns which of the settings a model does not get, and why: those asked for, and the model's own. An effort
// is never among them: each model has a level for it, or none.
func omitted(m turn.Model, asked turn.ModelSettings, limit turn.Effort) []turn.OmittedSetting {
	_ = m.Fit(asked, limit, true) // a lenient fit reports what it leaves out
	return m.Fitted.Omitted
}

// sets reports whether the settings have a value for one of those that Fit can leave out.
func sets(s turn.ModelSettings, name string) bool {
	switch name {
	case "temperature":
		return s.Temperature != nil
	case "top_p":
		return s.TopP != nil
	case "stop":
		return len(s.Stop) > 0
	case "seed":
		return s.Seed != nil
	case "verbosity":
		return s.Verbosity != ""
	}
	return s.ToolChoice != ""
}

// refusedByAll returns the settings that no model takes that a message could choose of a provider, or of all providers
// if that is "". Without reasoning, models take the most.
func refusedByAll(all models.Models, s turn.ModelSettings, provider string) map[string]bool {
	var refused map[string]bool
	s.Effort = turn.EffortOff
	for _, m := range choosable(all, provider) {
		own := map[string]bool{}
		for _, o := range omitted(m, s, "") {
			own[o.Setting] = refused == nil || refused[o.Setting]
		}
		maps.DeleteFunc(own, func(_ string, all bool) bool { return !all })
		refused = own
	}
	return refused
}

// choosable returns the models that a message could choose of a provider, or of all providers if that is "". An
// endpoint that takes any name has one model, of which only the wire API is known.
func choosable(all models.Models, provider string) (list []turn.Model) {
	for _, e := range all.Endpoints {
		if provider != "" && e.ID != provider {
			continue
		}
		if e.Vendor == "" {
			list = append(list, turn.Model{Provider: e.ID, API: e.API})
			continue
		}
		for _, p := range all.List.Models {
			if p.Provider == e.Vendor {
				list = append(list, turn.Model{Provider: e.ID, Name: p.Name, API: cmp.Or(e.API, p.API), Reasoning: p.Reasoning})
			}
		}
	}
	return list
}
