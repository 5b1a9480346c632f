package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
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
func sealed(ctx context.Context, j *journal.DB, keys journal.Keys) (*journal.DB, error) {
	db, err := j.Sealed(ctx, keys)
	if errors.Is(err, journal.ErrSealed) || codec.IsError(err) {
		err = temporalconn.WithKind(config.ErrInvalid, err)
	}
	return db, err
}
