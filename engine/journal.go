package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// Journal is what an engine needs of a journal.DB, which documents the methods.
type Journal interface {
	activities.Journal
	client.Journal
	ID(ctx context.Context) (string, error)
	PublishCatalogue(ctx context.Context, c turn.Catalogue) error
	Artifact(ctx context.Context, turnID, hash string) (mediaType string, b []byte, err error)
	Calls(ctx context.Context, turnID string) ([]journal.CallRecord, error)
	OpenRequests(ctx context.Context) (map[turn.RequestKind]int64, error)
	PruneEvents(ctx context.Context, before time.Time, limit int) (turns int, err error)
	Workers
	capacity.Journal
	Close() error
}

// Workers are the reports of the running workers.
type Workers interface {
	Workers(ctx context.Context) ([]fleet.WorkerReport, error)
	ReportWorker(ctx context.Context, r fleet.WorkerReport) error
	RemoveWorker(ctx context.Context, id string) error
}

var _ Journal = (*journal.DB)(nil)

// OpenJournal opens the configured journal, with the keys of [encryption] if encryption.journal is set. A Postgres
// database must already have its tables: see MigrateJournal. A SQLite file must have been created on this machine: see
// sqlite.Open. The error wraps journal.ErrUnavailable if the database cannot be reached or is locked.
func OpenJournal(ctx context.Context, cfg config.Config) (*journal.DB, error) {
	keys, err := journalKeys(cfg.Encryption)
	if err != nil {
		return nil, err
	}
	j, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	encrypted, err := sealed(ctx, j, keys)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return encrypted, nil
}

// openDatabase opens the configured journal without encryption.
func openDatabase(ctx context.Context, cfg config.Config) (*journal.DB, error) {
	if cfg.Journal.Driver == config.DriverPostgres {
		return postgres.Open(ctx, cfg.Journal.URL.Reveal(), postgres.Options{})
	}
	return sqlite.Open(ctx, cfg.Journal.Path, sqlite.Options{Synchronous: string(cfg.Journal.Synchronous)})
}

// MigrateJournal creates the journal's tables, and reports whether they were missing. For SQLite, OpenJournal creates
// them too; for Postgres it does not.
func MigrateJournal(ctx context.Context, cfg config.Config) (changed bool, err error) {
	if cfg.Journal.Driver == config.DriverPostgres {
		return postgres.Migrate(ctx, cfg.Journal.URL.Reveal())
	}
	existed := HasJournal(cfg)
	j, err := openDatabase(ctx, cfg)
	if err != nil {
		return false, err
	}
	return !existed, j.Close()
}

// CopyJournal copies everything in the journal from to the journal to, which must be empty: see journal.Copy. Each is
// the path of a SQLite file, or the connection string of a Postgres database. CopyJournal creates a missing SQLite file
// to. keys.Journal says whether the copy is encrypted; the original may be encrypted or not. It returns the number of
// copied sessions.
func CopyJournal(ctx context.Context, from, to string, keys config.Encryption) (sessions int, err error) {
	if !HasJournal(journalAt(from)) {
		return 0, fmt.Errorf("there is no journal at %s", from)
	}
	database, err := openDatabase(ctx, journalAt(from))
	if err != nil {
		return 0, err
	}
	defer database.Close()
	source, err := decrypted(ctx, database, keys)
	if err != nil {
		return 0, err
	}
	targetConfig := journalAt(to)
	targetConfig.Encryption = keys
	target, err := OpenJournal(ctx, targetConfig)
	if err != nil {
		return 0, err
	}
	sessions, err = journal.Copy(ctx, source, target)
	return sessions, errors.Join(err, target.Close())
}

// decrypted returns the journal j so that its content can be read: with the keys if j is encrypted, and without them if
// it is not, whatever keys.Journal says.
func decrypted(ctx context.Context, j *journal.DB, keys config.Encryption) (_ *journal.DB, err error) {
	if keys.Journal, err = j.Encrypted(ctx); err != nil {
		return nil, err
	}
	opened, err := journalKeys(keys)
	if err != nil {
		return nil, err
	}
	return sealed(ctx, j, opened)
}

// journalAt returns the default configuration with the journal at a place: the connection string of a Postgres
// database, or the path of a SQLite file.
func journalAt(place string) config.Config {
	cfg := config.Default()
	cfg.Journal.Path = place
	if strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://") {
		cfg.Journal.Driver, cfg.Journal.URL = config.DriverPostgres, config.Secret(place)
	}
	return cfg
}

// HasJournal reports whether the journal's SQLite file exists. For Postgres it returns true without connecting.
func HasJournal(cfg config.Config) bool {
	if cfg.Journal.Driver == config.DriverPostgres {
		return true
	}
	_, err := os.Stat(cfg.Journal.Path)
	return !errors.Is(err, fs.ErrNotExist)
}

// journalEvery is how often a worker checks that the journal's file is still the one that it has open.
const journalEvery = time.Second

// watchJournal stops the worker if the journal's SQLite file was deleted or replaced. Otherwise the worker would write
// to a file that no other process sees. Postgres needs no such check, because a missing database is an error.
func (e *Engine) watchJournal(ctx context.Context) {
	if e.cfg.Journal.Driver == config.DriverPostgres {
		return
	}
	every(ctx, journalEvery, func() bool {
		_, err := e.journal.Turn(ctx, "") // no turn has this ID: any read compares the files
		if errors.Is(err, journal.ErrReplaced) {
			e.fail(err)
			return false
		}
		return true
	})
}
