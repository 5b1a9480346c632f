package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

// slowCommit is a database whose commit of the first run becomes visible after its reply was lost and after a second
// run has failed.
type slowCommit struct{ *database }

func (s slowCommit) Write(ctx context.Context, fn func(journal.Conn) error) error {
	err := s.database.Write(ctx, fn)
	if err != nil {
		return err
	}
	if fn(emptyConn{}) == nil {
		return errors.New("the second run did not fail")
	}
	return s.database.Write(ctx, func(c journal.Conn) error { return fn(again{c}) })
}

type again struct{ journal.Conn }

func (again) Again() bool { return true }

// emptyConn is a connection whose queries find nothing and whose statements fail.
type emptyConn struct{}

var errRaced = errors.New("another transaction was faster")

func (emptyConn) Query(string, ...any) (journal.Rows, error) { return nil, errRaced }
func (emptyConn) QueryRow(string, ...any) journal.Row        { return emptyConn{} }
func (emptyConn) Exec(string, ...any) error                  { return errRaced }
func (emptyConn) Scan(...any) error                          { return sql.ErrNoRows }
func (emptyConn) Lock() string                               { return "" }
func (emptyConn) Again() bool                                { return true }

func TestImportKeepsTheResultOfTheRunThatWasCommitted(t *testing.T) {
	kept, err := os.ReadFile("../testdata/requests.jsonl")
	require.NoError(t, err)
	db, err := openFile(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{})
	require.NoError(t, err)
	j := journal.New(slowCommit{db})
	defer j.Close()
	out, err := j.Import(t.Context(), bytes.NewReader(kept))
	require.NoError(t, err)
	assert.False(t, out.Unchanged)
	assert.Equal(t, "s2", out.Session.ID)
	assert.NotEmpty(t, out.DroppedPermissions)
}

// cancelling is a database that cancels a context with the first query of a transaction that reads several rows. An
// import makes one after it has read its last line.
type cancelling struct {
	*database
	cancel func()
}

func (d cancelling) Write(ctx context.Context, fn func(journal.Conn) error) error {
	return d.database.Write(ctx, func(c journal.Conn) error { return fn(cancellingConn{c, d.cancel}) })
}

type cancellingConn struct {
	journal.Conn
	cancel func()
}

func (c cancellingConn) Query(query string, args ...any) (journal.Rows, error) {
	c.cancel()
	return c.Conn.Query(query, args...)
}

func TestImportStopsBetweenStatements(t *testing.T) {
	kept, err := os.ReadFile("../testdata/requests.jsonl")
	require.NoError(t, err)
	db, err := openFile(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	j := journal.New(cancelling{db, cancel})
	defer j.Close()
	_, err = j.Import(ctx, bytes.NewReader(kept))
	require.ErrorIs(t, err, context.Canceled)
	_, err = j.Session(t.Context(), "s2")
	assert.ErrorIs(t, err, journal.ErrNotFound)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestImportIsBounded(t *testing.T) {
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{})
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Import(t.Context(), zeros{})
	assert.ErrorContains(t, err, "the export exceeds 268435456 bytes")
}
