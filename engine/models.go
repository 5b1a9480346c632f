package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/modelconfig"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows/turn"
)

// openModels loads the list of models, and sets the default model of e.model. It returns an error if a model that the
// configuration names does not exist: the default model, a fallback, an agent's model or the one for summaries.
func (e *Engine) openModels(context.Context) error {
	all, err := modelconfig.Models(e.cfg)
	if err != nil {
		e.log.Warn("the built-in list of models is used", "error", err)
	}
	e.models.Store(&all)
	chain, err := modelconfig.Chain(all, e.cfg, "")
	if err != nil {
		return temporalconn.WithKind(config.ErrInvalid, err)
	}
	e.model.provider, e.model.name = chain[0].Provider, chain[0].Name
	for _, a := range e.cfg.Agents {
		if _, err := modelconfig.Chain(all, e.cfg, a.Model); err != nil {
			return temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("agent %s: %w", a.ID, err))
		}
	}
	if name := summaryModel(e.cfg); name != "" {
		if _, err := all.Resolve(name); err != nil {
			return temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("prompt.summary_model: %w", err))
		}
	}
	return nil
}

// chain is modelconfig.Chain for the model that a message requests, or else for the one that its agent has; both may be
// empty. It uses the current list of models, which refreshModels may replace, and the engine's configuration.
func (e *Engine) chain(requested, agents string) ([]turn.Model, error) {
	all := *e.models.Load()
	if requested != "" {
		if _, err := all.Requested(requested); err != nil {
			return nil, err
		}
	}
	return modelconfig.Chain(all, e.cfg, cmp.Or(requested, agents))
}

// refreshModels fetches the list of models now and then every models.RefreshEvery, unless the list is recent. If a
// fetch fails, the list that the worker has stays. Without llm.models_url, refreshModels does nothing.
func (e *Engine) refreshModels(ctx context.Context) {
	if e.cfg.LLM.ModelsURL == "" {
		return
	}
	every(ctx, models.RefreshEvery, func() bool {
		// Half, because at the next tick the list of this fetch is a little younger than models.RefreshEvery.
		if time.Since(e.models.Load().List.Fetched) < models.RefreshEvery/2 {
			return true
		}
		list, err := models.Fetch(ctx, e.cfg.LLM.ModelsURL)
		if err == nil {
			err = models.Keep(list, e.cfg.Journal.Path, time.Now())
		}
		if err != nil {
			if ctx.Err() == nil {
				e.log.Warn("the list of models was not refreshed; the one in use stays", "error", err,
					"stale", e.models.Load().List.Stale(time.Now()))
			}
			return true
		}
		if all, err := modelconfig.Models(e.cfg); err == nil {
			e.models.Store(&all)
		}
		return true
	})
}
