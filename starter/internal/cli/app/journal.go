package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
)

// OpenJournal opens the configured journal, limited to the sessions of the configured tenant. It creates a SQLite
// journal that does not exist. A file that cannot be opened is a configuration error (see JournalError); a journal that
// does not answer in time is client.ErrUnavailable.
func OpenJournal(ctx context.Context, cfg config.Config) (client.Journal, error) {
	sqlite := !cfg.Journal.Postgres()
	if sqlite && filepath.Dir(filepath.Clean(cfg.Journal.Path)) == StateDir {
		if err := KeepState(); err != nil {
			return nil, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	j, err := client.OpenJournal(limited, cfg)
	timedOut := limited.Err() != nil && ctx.Err() == nil
	switch {
	case err != nil && timedOut && !errors.Is(err, client.ErrUnavailable):
		return nil, fmt.Errorf("%w: %s has not answered for %v: %w", client.ErrUnavailable, cfg.Journal.Place(), openWithin,
			err)
	case err != nil:
		return nil, JournalError(ctx, err)
	}
	return j, nil
}

// openWithin is how long a command waits for its journal.
const openWithin = 5 * time.Second

// JournalError turns an error of opening the journal into a configuration error. It returns err unchanged if the
// command was interrupted, or if the journal is unavailable or read-only, which have other exit codes.
func JournalError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrReadOnly) {
		return err
	}
	return AsUsage(err)
}

// checkJournalExists returns an error if the configured journal does not exist yet.
func checkJournalExists(cfg config.Config) error {
	if client.HasJournal(cfg) {
		return nil
	}
	return Usage("there is no journal at %s yet: start a session first, for example `everturn run --dev \"hello\"`",
		cfg.Journal.Path)
}

// ReadJournal opens a journal that must exist. Commands that only read do not create one.
func ReadJournal(ctx context.Context, cfg config.Config) (client.Journal, error) {
	if err := checkJournalExists(cfg); err != nil {
		return nil, err
	}
	return OpenJournal(ctx, cfg)
}

// WithJournal calls do with the journal, which must exist.
func (a *App) WithJournal(ctx context.Context, do func(client.Journal) error) error {
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

// LastSession returns the ID of the session that was used last.
func LastSession(ctx context.Context, j client.Journal) (string, error) {
	sessions, err := j.Sessions(ctx, 1)
	if err != nil {
		return "", err
	}
	if len(sessions) == 0 {
		return "", Usage("the journal has no sessions yet: start one with `everturn run`")
	}
	return sessions[0].ID, nil
}

// SessionArg returns the session that args names, or the session that was used last if args is empty. The session must
// exist.
func SessionArg(ctx context.Context, j client.Journal, args []string) (string, error) {
	if len(args) == 0 {
		return LastSession(ctx, j)
	}
	if _, err := j.Session(ctx, args[0]); err != nil {
		if errors.Is(err, client.ErrNotFound) {
			return "", Usage("the journal has no session %q; `everturn list` lists them", args[0])
		}
		return "", err
	}
	return args[0], nil
}
