package adapters

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/modelconfig"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows/turn"
)

// openList loads the list of models, and sets the default model. It returns an error if a model that the
// configuration names does not exist: the default model, a fallback, an agent's model or the one for summaries; or if
// model settings could never be used.
func (m *Model) openList() error {
	all, err := modelconfig.Models(m.cfg)
	if err != nil {
		m.log.Warn("the built-in list of models is used", "error", err)
	}
	m.list.Store(&all)
	chain, err := modelconfig.Chain(all, m.cfg, "")
	if err != nil {
		return temporalconn.WithKind(config.ErrInvalid, err)
	}
	m.provider, m.name = chain[0].Provider, chain[0].Name
	for _, a := range m.cfg.Agents {
		if _, err := modelconfig.Chain(all, m.cfg, a.Model); err != nil {
			return temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("agent %s: %w", a.ID, err))
		}
	}
	if name := SummaryModel(m.cfg); name != "" {
		if _, err := all.Resolve(name); err != nil {
			return temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("prompt.summary_model: %w", err))
		}
	}
	if m.own != nil {
		return nil
	}
	m.notes, err = modelconfig.CheckSettings(all, m.cfg)
	for _, note := range m.notes {
		m.log.Warn("a model setting has no effect", "setting", note)
	}
	return cmp.Or(err, m.checkRequests(all))
}

// checkRequests returns a *config.Error if an agent's model would refuse every request with tools as it is configured.
func (m *Model) checkRequests(all models.Models) error {
	for i, a := range m.cfg.AllAgents() {
		chain, err := modelconfig.Chain(all, m.cfg, a.Model)
		if err != nil || chain[0].Mode != turn.ModeNative || chain[0].Provider == models.Demo {
			continue
		}
		model, key := chain[0], "llm.model"
		if i > 0 && a.Model != "" {
			key = fmt.Sprintf("agents[%d].model", i-1)
		}
		_ = model.Fit(a.ModelSettings, m.cfg.Policy.MaxEffort, true) // a lenient fit refuses nothing
		p, _ := m.cfg.ModelProvider(config.Provider(model.Provider))
		prompt := turn.Prompt{Provider: model.Provider, API: model.API, Model: model.Name, Settings: model.Settings,
			Reasoning: model.Reasoning, Messages: []turn.Message{{Role: turn.RoleUser, Text: "hello"}},
			Tools: []turn.WireTool{{Name: "tool", Schema: json.RawMessage(`{"type":"object"}`)}}}
		if _, err := wires[apiOf(p, prompt)].Body(prompt, inference.Rules{}); err != nil {
			return &config.Error{Problems: []config.Problem{{Key: key, Message: fmt.Sprintf("%s is %s:%s: %v", key,
				model.Provider, model.Name, err)}}}
		}
	}
	return nil
}

// Chain is modelconfig.Chain for the model that a message requests, or else for the one that its agent has; both may be
// empty. It uses the current list of models, which Refresh may replace.
func (m *Model) Chain(requested, agents string) ([]turn.Model, error) {
	all := *m.list.Load()
	if requested != "" {
		if _, err := all.Requested(requested); err != nil {
			return nil, err
		}
	}
	return modelconfig.Chain(all, m.cfg, cmp.Or(requested, agents))
}

// Refresh fetches the list of models from llm.models_url, unless the list is recent. If that fails, it logs the error,
// and the list in use stays. Call it every models.RefreshEvery.
func (m *Model) Refresh(ctx context.Context) {
	// Half, because at the next tick the list of this fetch is a little younger than models.RefreshEvery.
	if m.cfg.LLM.ModelsURL == "" || time.Since(m.list.Load().List.Fetched) < models.RefreshEvery/2 {
		return
	}
	list, err := models.Fetch(ctx, m.cfg.LLM.ModelsURL)
	if err == nil {
		err = models.Keep(list, m.cfg.Journal.Path, time.Now())
	}
	if err != nil {
		if ctx.Err() == nil {
			m.log.Warn("the list of models was not refreshed; the one in use stays", "error", err,
				"stale", m.list.Load().List.Stale(time.Now()))
		}
		return
	}
	if all, err := modelconfig.Models(m.cfg); err == nil {
		m.list.Store(&all)
	}
}

// SummaryModel returns the model that writes summaries. It is empty if that is the turn's own model, as with the demo,
// which has only one.
func SummaryModel(cfg config.Config) string {
	if cfg.EffectiveLLM().Provider == config.ProviderDemo {
		return ""
	}
	return cfg.Prompt.SummaryModel
}
