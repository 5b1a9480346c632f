package engine

import (
	"context"
	"errors"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/demo"
	"github.com/everturn/everturn/config"
)

// model is the configured provider, and the demo's server if the provider is the built-in demo.
type model struct {
	*inference.Chat
	provider string
	name     string
	demo     *demo.Server
}

func (e *Engine) openModel(ctx context.Context) error {
	c := e.cfg.LLM.Effective()
	m := &model{provider: string(c.Provider), name: c.Model}
	if !e.cfg.Worker.Has(config.RoleInference) {
		e.model = m
		return nil
	}
	if err := c.CheckCredentials(); err != nil {
		return err
	}
	baseURL, key := c.BaseURL, c.APIKey.Reveal()
	if c.Provider == config.ProviderDemo {
		server, err := demo.Start(ctx, demo.Options{Slow: c.DemoSlow})
		if err != nil {
			return err
		}
		m.demo, baseURL, key = server, server.URL(), "none"
	}
	e.model = m
	chat, err := inference.New(inference.Options{
		Name: m.provider, BaseURL: baseURL, APIKey: key, Redact: e.secrets,
		ConnectTimeout: c.ConnectTimeout, FirstTokenTimeout: c.FirstTokenTimeout,
		IdleTimeout: c.IdleTimeout, TotalTimeout: c.TotalTimeout,
		MaxRetryAfter: c.MaxRetryAfter, Modalities: modalities(c.Media),
	})
	m.Chat = chat
	return err
}

// modalities returns the modalities that the operator configures for models; nil leaves them to the model's known
// capabilities.
func modalities(m config.Media) *inference.Modalities {
	switch m {
	case config.MediaNone:
		return &inference.Modalities{}
	case config.MediaImages:
		return &inference.Modalities{Images: true}
	case config.MediaAll:
		return &inference.Modalities{Images: true, Audio: true}
	}
	return nil
}

func (m *model) close() error {
	var errs []error
	if m.Chat != nil {
		errs = append(errs, m.Chat.Close())
	}
	if m.demo != nil {
		errs = append(errs, m.demo.Close())
	}
	return errors.Join(errs...)
}

// CheckModel checks that the configured provider answers, without an inference. It returns the names of the provider
// and the model, for display.
func CheckModel(ctx context.Context, cfg config.Config) (string, error) {
	e := newEngine(cfg, nil)
	if err := e.openModel(ctx); err != nil {
		return "", errors.Join(err, e.Close())
	}
	if e.model.Chat == nil {
		return e.model.provider + ", " + e.model.name + "; other workers call it (worker.roles)", e.Close()
	}
	err := e.model.Ping(ctx)
	return e.model.provider + ", " + e.model.name, errors.Join(err, e.Close())
}
