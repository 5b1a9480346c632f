package app

import (
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
)

// DefaultModel returns the model of turns whose messages name none, as far as this configuration tells.
func (t *TurnClient) DefaultModel() string {
	all, _ := engine.Models(t.Cfg) // the built-in list is good enough for display
	chain, err := engine.Chain(all, t.Cfg, "")
	if err != nil {
		return t.Cfg.EffectiveLLM().Model
	}
	return chain[0].Name
}

// CheckModel returns an error for a model that the configured providers do not have. Workers with another configuration
// may have it: without a provider here, the check is left to them.
func (t *TurnClient) CheckModel(name string) error { return checkModel(t.Cfg, name, false) }

// checkModel is CheckModel for a client whose worker is in this process (own), or elsewhere.
func checkModel(cfg config.Config, name string, own bool) error {
	if name == "" || !own && cfg.EffectiveLLM().Provider == config.ProviderDemo {
		return nil
	}
	all, _ := engine.Models(cfg) // see Workers: they log an unreadable list
	if _, err := all.Resolve(name); err != nil {
		return AsUsage(err)
	}
	return nil
}
