package openjournal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/sqlite"
)

// Open opens the configured journal, with the keys of [encryption] if encryption.journal is set. A Postgres
// database must already have its tables: see Migrate. A SQLite file must have been created on this machine: see
// sqlite.Open. The error wraps journal.ErrUnavailable if the database cannot be reached or is locked.
func Open(ctx context.Context, cfg config.Config) (*journal.DB, error) {
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
	if cfg.Journal.Postgres() {
		return postgres.Open(ctx, cfg.Journal.URL.Reveal(), postgres.Options{})
	}
	return sqlite.Open(ctx, cfg.Journal.Path, sqlite.Options{Synchronous: string(cfg.Journal.Synchronous)})
}

// Migrate creates the journal's tables, or updates those of an older version. For Postgres it reports whether it
// changed anything, for SQLite whether the file was missing. For SQLite, Open does the same; for Postgres it does not.
func Migrate(ctx context.Context, cfg config.Config) (changed bool, err error) {
	if cfg.Journal.Postgres() {
		return postgres.Migrate(ctx, cfg.Journal.URL.Reveal())
	}
	existed := Exists(cfg)
	j, err := openDatabase(ctx, cfg)
	if err != nil {
		return false, err
	}
	return !existed, j.Close()
}

// Copy copies everything in the journal from to the journal to, which must be empty: see journal.Copy. Each is
// the path of a SQLite file, or the connection string of a Postgres database. Copy creates a missing SQLite file
// to. keys.Journal says whether the copy is encrypted; the original may be encrypted or not. It returns the number of
// copied sessions.
func Copy(ctx context.Context, from, to string, keys config.Encryption) (sessions int, err error) {
	if !Exists(journalAt(from)) {
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
	target, err := Open(ctx, targetConfig)
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
		cfg.Journal.URL = config.Secret(place)
	}
	return cfg
}

// Exists reports whether the journal's SQLite file exists. For Postgres it returns true without connecting.
func Exists(cfg config.Config) bool {
	if cfg.Journal.Postgres() {
		return true
	}
	_, err := os.Stat(cfg.Journal.Path)
	return !errors.Is(err, fs.ErrNotExist)
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
