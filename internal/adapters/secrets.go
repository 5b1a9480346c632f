package adapters

import (
	"net/url"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal/postgres"
)

// Secrets returns a redactor that knows the keys of providers and of Temporal, the token of the codec server, the
// journal's connection string and password, and those of the remote repositories and of publishing. OpenTools adds the
// secrets of the MCP servers. The encryption keys are not among them.
func Secrets(cfg config.Config, environ []string) *redact.Redactor {
	secrets := redact.New(cfg.Runtime.Redact...)
	secrets.Add(cfg.LLM.APIKey.Reveal(), cfg.CodecServer.Token.Reveal())
	if url := cfg.Journal.URL.Reveal(); url != "" {
		secrets.Add(url, postgres.Password(url))
	}
	for _, remote := range []config.Secret{cfg.Workspace.Remote, cfg.Workspace.Publish.Remote} {
		secrets.Add(remote.Reveal())
		if u, err := url.Parse(remote.Reveal()); err == nil && u.User != nil {
			password, _ := u.User.Password()
			secrets.Add(password)
		}
	}
	for _, name := range cfg.Workspace.Publish.EnvAllow {
		value, _ := temporalconn.Environ(environ).LookupEnv(name)
		secrets.Add(value)
	}
	for _, p := range cfg.Providers {
		secrets.Add(p.APIKey.Reveal())
	}
	if key, ok := temporalconn.Environ(environ).LookupEnv("TEMPORAL_API_KEY"); ok {
		secrets.Add(key)
	}
	return secrets
}
