package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
)

// OpenJournal opens the configured journal as its tenant sees it: no command can see another tenant's sessions. A file
// that cannot be opened is a configuration error; a busy one is not.
func OpenJournal(ctx context.Context, cfg config.Config) (*journal.DB, error) {
	sqlite := cfg.Journal.Driver == config.DriverSQLite
	if sqlite && filepath.Dir(filepath.Clean(cfg.Journal.Path)) == StateDir {
		if err := KeepState(); err != nil {
			return nil, err
		}
	}
	opening, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	j, err := engine.OpenJournal(opening, cfg)
	switch {
	case err != nil && opening.Err() != nil && ctx.Err() == nil && !errors.Is(err, journal.ErrUnavailable):
		return nil, fmt.Errorf("%w: %s has not answered for %v: %w", journal.ErrUnavailable, cfg.Journal.Place(), openWithin,
			err)
	case err != nil:
		return nil, JournalError(ctx, err)
	}
	return j.Tenant(cfg.Tenant), nil
}

// openWithin is how long a command waits for its journal.
const openWithin = 5 * time.Second

// JournalError turns an error of opening the journal into a configuration error, unless trying again may help or the
// journal can only be read.
func JournalError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, journal.ErrUnavailable) || errors.Is(err, journal.ErrReadOnly) {
		return err
	}
	return AsUsage(err)
}

func checkJournalExists(cfg config.Config) error {
	if engine.HasJournal(cfg) {
		return nil
	}
	return Usage("there is no journal at %s yet: start a session first, for example `everturn run --dev \"hello\"`",
		cfg.Journal.Path)
}

// ReadJournal opens a journal that must exist. Commands that only read do not create one.
func ReadJournal(ctx context.Context, cfg config.Config) (*journal.DB, error) {
	if err := checkJournalExists(cfg); err != nil {
		return nil, err
	}
	return OpenJournal(ctx, cfg)
}

// WithJournal calls do with the journal, which must exist.
func (a *App) WithJournal(ctx context.Context, do func(*journal.DB) error) error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	j, err := ReadJournal(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer j.Close()
	return do(j)
}

// LastSession returns the session that was used last.
func LastSession(ctx context.Context, j *journal.DB) (string, error) {
	sessions, err := j.Sessions(ctx, 1)
	if err != nil {
		return "", err
	}
	if len(sessions) == 0 {
		return "", Usage("the journal has no sessions yet: start one with `everturn run`")
	}
	return sessions[0].ID, nil
}

// SessionArg returns the named session, or the last one if none is named.
func SessionArg(ctx context.Context, j *journal.DB, args []string) (string, error) {
	if len(args) == 0 {
		return LastSession(ctx, j)
	}
	if _, err := j.Session(ctx, args[0]); err != nil {
		if errors.Is(err, journal.ErrNotFound) {
			return "", Usage("the journal has no session %q; `everturn list` lists them", args[0])
		}
		return "", err
	}
	return args[0], nil
}
