package engine

import (
	"crypto/rand"
	"log/slog"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal/postgres"
)

// newEngine returns an engine that has opened nothing yet. Its logs and its redactor leave out the keys of providers
// and of Temporal, the token of the codec server, and the journal's connection string and password. The encryption keys
// are added later, and the host of MCP servers adds the secrets of their configuration.
func newEngine(cfg config.Config, opts []Option) *Engine {
	e := &Engine{
		id: rand.Text(), home: homeQueue(cfg), cfg: cfg, options: newOptions(opts), fatal: make(chan error, 1),
		secrets: redact.New(cfg.Runtime.Redact...),
	}
	e.guidance.Store(&guidance{})
	e.secrets.Add(cfg.LLM.APIKey.Reveal(), cfg.Temporal.APIKey.Reveal(), cfg.CodecServer.Token.Reveal())
	if url := cfg.Journal.URL.Reveal(); url != "" {
		e.secrets.Add(url, postgres.Password(url))
	}
	for _, p := range cfg.Providers {
		e.secrets.Add(p.APIKey.Reveal())
	}
	if key, ok := temporalconn.Environ(e.options.environ).LookupEnv("TEMPORAL_API_KEY"); ok {
		e.secrets.Add(key)
	}
	e.log = slog.New(e.secrets.Handler(e.options.log.Handler()))
	return e
}
