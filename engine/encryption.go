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

// openKeys reads the encryption keys, if any are configured. The engine redacts them in logs and in the output of
// tools, and logs no error texts of activities, because these may quote content.
func (e *Engine) openKeys(context.Context) (err error) {
	if e.keys, err = codec.Open(e.cfg.Encryption); err != nil || e.keys == nil {
		return err
	}
	e.keys.Learn(e.secrets.Add) // also keys that a later version of the file adds
	e.log = slog.New(temporalconn.ContentFree(e.log.Handler()))
	return nil
}

// journalKeys returns the keys that encrypt the journal, or nil if encryption.journal is off.
func journalKeys(cfg config.Encryption) (journal.Keys, error) {
	if !cfg.Journal {
		return nil, nil
	}
	keys, err := codec.Open(cfg)
	if err == nil && keys == nil {
		err = fmt.Errorf("%w: encryption.journal needs keys: set encryption.key_file", config.ErrInvalid)
	}
	if err != nil {
		return nil, err // an interface with nil keys would not be nil
	}
	return keys, nil
}

// sealed returns j with its content encrypted by keys; nil means that it is not encrypted. If the configuration does
// not match how the journal is stored, or the keys do not decrypt it, the error is config.ErrInvalid.
func sealed(ctx context.Context, j *journal.DB, keys journal.Keys) (*journal.DB, error) {
	db, err := j.Sealed(ctx, keys)
	if errors.Is(err, journal.ErrSealed) || codec.IsError(err) {
		err = temporalconn.WithKind(config.ErrInvalid, err)
	}
	return db, err
}
