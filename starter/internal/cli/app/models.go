package app

import (
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/modelconfig"
)

// DefaultModel returns the name of the model of turns whose messages name none. The workers' configuration decides;
// this is what the command's own configuration says.
func (t *TurnClient) DefaultModel() string {
	all, _ := modelconfig.Models(t.Cfg) // the built-in list is good enough for display
	chain, err := modelconfig.Chain(all, t.Cfg, "")
	if err != nil {
		return t.Cfg.EffectiveLLM().Model
	}
	return chain[0].Name
}

// CheckModel returns an error for a model that the configured providers do not have. It returns nil for every model if
// this command's configuration has no provider, because the workers may have one.
func (t *TurnClient) CheckModel(name string) error { return checkModel(t.Cfg, name, false) }

// checkModel is CheckModel for a configuration. own is true if this process runs the worker, so that the check is final
// even without a provider. The name "" is the default model, which is not checked.
func checkModel(cfg config.Config, name string, own bool) error {
	if name == "" || !own && cfg.EffectiveLLM().Provider == config.ProviderDemo { // demo: no provider is configured
		return nil
	}
	all, _ := modelconfig.Models(cfg) // an unreadable model list is logged by the workers
	if _, err := all.Requested(name); err != nil {
		return AsUsage(err)
	}
	return nil
}
