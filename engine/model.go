package engine

import (
	"context"
	"time"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/demo"
)

// model is the provider that the configuration names, with the server behind it where that is the built-in demo.
type model struct {
	*inference.Chat
	provider string
	name     string
	demo     *demo.Server
}

// demoModel is the name of the built-in model.
const demoModel = "demo"

// slowDelay is between two words of the demo model in its slow mode: enough to kill a worker in the middle.
const slowDelay = 150 * time.Millisecond

func (e *Engine) openModel(ctx context.Context) error {
	c := e.cfg.LLM
	m := &model{provider: string(c.ProviderName()), name: c.Model}
	baseURL, key := c.BaseURL, string(c.APIKey)
	if m.provider == demoModel {
		opts := demo.Options{}
		if c.DemoSlow {
			opts.Delay = slowDelay
		}
		server, err := demo.Start(ctx, opts)
		if err != nil {
			return err
		}
		m.demo, m.name, baseURL, key = server, demoModel, server.URL(), demoModel
	}
	e.model = m
	chat, err := inference.New(inference.Options{
		Name: m.provider, BaseURL: baseURL, APIKey: key,
		ConnectTimeout: time.Duration(c.ConnectTimeout), FirstTokenTimeout: time.Duration(c.FirstTokenTimeout),
		IdleTimeout: time.Duration(c.IdleTimeout), TotalTimeout: time.Duration(c.TotalTimeout),
		MaxRetryAfter: time.Duration(c.MaxRetryAfter),
	})
	m.Chat = chat
	return err
}

func (m *model) close() error {
	if m.demo == nil {
		return nil
	}
	return m.demo.Close()
}
