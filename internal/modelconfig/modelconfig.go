package modelconfig

import (
	"fmt"
	"slices"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/workflows/turn"
)

// Models returns the models of the configured providers. If the fetched list cannot be read, Models returns those of
// the built-in list with the error.
func Models(cfg config.Config) (models.Models, error) {
	list, err := models.Load(cfg.Journal.Path)
	m := models.Models{List: list, Endpoints: endpoints(cfg, list)}
	if m.Endpoints[0].ID == models.Demo { // the demo is free, unless [[models]] sets a price for it
		m.Overrides = append(m.Overrides, models.Override{Model: "demo:demo", Price: &models.Price{}})
	}
	for _, d := range cfg.Models {
		m.Overrides = append(m.Overrides, override(d))
	}
	return m, err
}

// endpoints returns the configured providers, the default one first. It leaves out a vendor without a key, which would
// refuse every request, unless this worker makes no inferences and so needs no keys.
func endpoints(cfg config.Config, list *models.List) []models.Endpoint {
	chosen := cfg.EffectiveLLM().Provider
	if chosen == config.ProviderDemo {
		return []models.Endpoint{{ID: string(chosen), Vendor: string(chosen), Settings: cfg.LLM.ModelSettings}}
	}
	var first, rest []models.Endpoint
	for _, id := range cfg.ProviderIDs() {
		p, _ := cfg.ModelProvider(id)
		e := models.Endpoint{ID: string(id), Vendor: list.VendorOf(p.BaseURL), Thinking: p.ThinkingFormat,
			Settings: p.ModelSettings.Over(cfg.LLM.ModelSettings)}
		switch {
		case p.API != config.APIAuto:
			e.API = p.API
		case e.Vendor == "": // a server of no known vendor most likely implements Chat Completions
			e.API = turn.APIChat
		}
		switch {
		case id == chosen:
			first = append(first, e)
		case p.APIKey != "" || !p.Official() || !cfg.Worker.Has(config.RoleInference):
			rest = append(rest, e)
		}
	}
	return append(first, rest...)
}

// override converts an entry of [[models]] to what replaces the list's description of the model.
func override(d config.Model) models.Override {
	o := models.Override{Model: d.Name, ContextTokens: d.ContextTokens, MaxOutputTokens: d.MaxOutputTokens,
		Latency: d.Latency, Quality: d.Quality}
	if d.Capabilities != nil { // not nil means that they replace the list's, even if there are none
		o.Capabilities = []models.Capability{}
		for _, c := range d.Capabilities {
			o.Capabilities = append(o.Capabilities, models.Capability(c))
		}
	}
	for _, e := range d.Efforts {
		o.Efforts = append(o.Efforts, turn.Effort(e))
	}
	if d.InputPrice != nil && d.OutputPrice != nil {
		o.Price = &models.Price{Rates: models.Rates{Input: *d.InputPrice, Output: *d.OutputPrice,
			CachedInput: zeroIfNil(d.CachedInputPrice), CacheWrite: zeroIfNil(d.CacheWritePrice)}}
	}
	return o
}

func zeroIfNil(n *float64) float64 {
	if n == nil {
		return 0
	}
	return *n
}

// Selection converts llm.select to the criteria by which models.Models selects a model.
func Selection(s config.Select) models.Selection {
	out := models.Selection{MaxInputPrice: s.MaxInputPrice, MaxOutputPrice: s.MaxOutputPrice,
		MinContextTokens: s.MinContextTokens, Preference: models.Preference(s.Preference)}
	for _, c := range s.Require {
		out.Require = append(out.Require, models.Capability(c))
	}
	return out
}

// Chain returns the models that a turn may use, in the order in which they take over. The first is the requested one,
// or if that is empty, the one of llm.model or llm.select, or else the provider's default. The fallbacks follow, except
// for the demo. The error for an unknown model suggests similar names.
func Chain(all models.Models, cfg config.Config, requested string) ([]turn.Model, error) {
	first, err := firstModel(all, cfg, requested)
	if err != nil {
		return nil, err
	}
	chain := []turn.Model{first}
	if cfg.EffectiveLLM().Provider == config.ProviderDemo {
		return chain, nil
	}
	for i, name := range cfg.LLM.Fallback {
		r, err := all.Resolve(name)
		if err != nil {
			return nil, fmt.Errorf("llm.fallback[%d]: %w", i, err)
		}
		same := func(m turn.Model) bool { return m.Provider == r.Provider && m.Name == r.Name }
		if !slices.ContainsFunc(chain, same) {
			chain = append(chain, all.Model(r, "fallback"))
		}
	}
	return chain, nil
}

// firstModel returns the first model of Chain, with the reason for the choice.
func firstModel(all models.Models, cfg config.Config, requested string) (turn.Model, error) {
	resolve := func(name, why string) (turn.Model, error) {
		r, err := all.Resolve(name)
		return all.Model(r, why), err
	}
	if requested != "" {
		return resolve(requested, "requested with the message")
	}
	if s := cfg.LLM.Select; cfg.LLM.Model == "" && s.Preference != "" &&
		cfg.EffectiveLLM().Provider != config.ProviderDemo {
		fit, err := all.Select(Selection(s))
		if err != nil {
			return turn.Model{}, fmt.Errorf("llm.select: %w", err)
		}
		return all.Model(fit[0], fmt.Sprintf("%s, of %d models that fit", s.Preference, len(fit))), nil
	}
	why := "the agent's model"
	if cfg.LLM.Model == "" {
		why = "the provider's default"
	}
	m, err := resolve(cfg.EffectiveLLM().Model, why)
	if err != nil {
		err = fmt.Errorf("llm.model: %w", err)
	}
	return m, err
}

// SeesImages reports whether the model for a message accepts images. requested is the model that the message names, or
// empty. SeesImages returns true if this configuration does not determine the model.
func SeesImages(cfg config.Config, requested string) bool {
	all, _ := Models(cfg)
	chain, err := Chain(all, cfg, requested)
	if err != nil {
		return true
	}
	if chain[0].Provider == models.Demo {
		return true
	}
	r, err := all.Resolve(chain[0].Provider + ":" + chain[0].Name)
	return err != nil || r.Has(models.Vision)
}
