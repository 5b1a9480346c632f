package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
)

// openKeys reads the keys of the encryption. They are blanked in logs and in what leaves a tool.
func (e *Engine) openKeys(context.Context) (err error) {
	if e.keys, err = codec.Open(e.cfg.Encryption); err != nil || e.keys == nil {
		return err
	}
	e.keys.Learn(e.secrets.Add)
	e.log = slog.New(temporalconn.ContentFree(e.log.Handler()))
	return nil
}

// journalKeys returns the keys of the journal, nil if it is not to be encrypted.
func journalKeys(cfg config.Encryption) (journal.Keys, error) {
	if !cfg.Journal {
		return nil, nil
	}
	keys, err := codec.Open(cfg)
	if err == nil && keys == nil {
		err = fmt.Errorf("%w: encryption.journal needs keys: set encryption.key_file", config.ErrInvalid)
	}
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// sealed returns the journal with its encryption. An encryption that the configuration does not fit is
// config.ErrInvalid.
func sealed(ctx context.Context, store *journal.DB, keys journal.Keys) (*journal.DB, error) {
	s, err := store.Sealed(ctx, keys)
	if errors.Is(err, journal.ErrSealed) || codec.IsError(err) {
		err = temporalconn.WithKind(config.ErrInvalid, err)
	}
	return s, err
}

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
