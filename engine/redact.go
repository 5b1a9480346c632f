package engine

import (
	"crypto/rand"
	"log/slog"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/temporalconn"
)

// newEngine returns an engine without its parts. Its redactor knows the keys of the model and of Temporal; the tool
// host adds the secrets of the MCP servers' configuration and the access tokens that it gets for them.
func newEngine(cfg config.Config, opts []Option) *Engine {
	e := &Engine{
		id: rand.Text(), home: homeQueue(cfg), cfg: cfg, options: newOptions(opts), fatal: make(chan error, 1),
		secrets: redact.New(cfg.Runtime.Redact...),
	}
	e.secrets.Add(cfg.LLM.APIKey.Reveal(), cfg.Temporal.APIKey.Reveal())
	for _, p := range cfg.Providers {
		e.secrets.Add(p.APIKey.Reveal())
	}
	if key, ok := temporalconn.Environ(e.options.environ).LookupEnv("TEMPORAL_API_KEY"); ok {
		e.secrets.Add(key)
	}
	e.log = slog.New(e.secrets.Handler(e.options.log.Handler()))
	return e
}
