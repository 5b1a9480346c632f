package modelconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
	shared := func(key string, s turn.ModelSettings, provider string) {
		refused := refusedByAll(all, s, provider)
		for _, setting := range slices.Sorted(maps.Keys(refused)) {
			name := key + "." + setting
			problems = append(problems, config.Problem{Key: name, Message: name + " cannot be used: no model of " +
				cmp.Or(provider, "the configured providers") + " takes it; leave it out"})
		}
		if provider != "" && provider != chain[0].Provider {
			return
		}
		for _, o := range omitted(chain[0], s) {
			if !refused[o.Setting] {
				notes = append(notes, fmt.Sprintf("%s.%s is not sent to %s:%s: %s", key, o.Setting, chain[0].Provider,
					chain[0].Name, o.Why))
			}
		}
	}
	shared("llm", cfg.LLM.ModelSettings, "")
	for i, p := range cfg.Providers {
		shared(fmt.Sprintf("providers[%d]", i), p.ModelSettings, string(p.ID))
	}
	for i, a := range cfg.Agents {
		own, err := Chain(all, cfg, a.Model)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.ID, err)
		}
		for _, o := range omitted(own[0], a.ModelSettings) {
			name := fmt.Sprintf("agents[%d].%s", i, o.Setting)
			problems = append(problems, config.Problem{Key: name, Message: fmt.Sprintf(
				"%s cannot be used: the model %s:%s refuses it: %s. Leave it out, or give the agent another model", name,
				own[0].Provider, own[0].Name, o.Why)})
		}
	}
	if len(problems) > 0 {
		return nil, &config.Error{Problems: problems}
	}
	return notes, nil
}

// omitted returns which of the settings a model does not get, and why. An effort is never among them: each model has a
// level for it, or none.
func omitted(m turn.Model, s turn.ModelSettings) []turn.OmittedSetting {
	m.Settings = s
	_ = m.Fit(turn.ModelSettings{}, "", true) // a lenient fit reports what it leaves out
	return m.Fitted.Omitted
}

// refusedByAll returns the settings that no model takes that a message could choose of a provider, or of all providers
// if that is "".
func refusedByAll(all models.Models, s turn.ModelSettings, provider string) map[string]bool {
	var refused map[string]bool
	for _, m := range choosable(all, provider) {
		own := map[string]bool{}
		for _, o := range omitted(m, s) {
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
