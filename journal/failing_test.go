package journal_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/codec/codectest"
	"github.com/everturn/everturn/journal"
)

var errDisk = errors.New("the disk fails")

// failingDatabase answers the queries that begin with one of answered, with a row that leaves the destinations as they
// are. All other queries fail.
type failingDatabase struct {
	journal.Database
	journal.Conn
	answered []string
}

func (d failingDatabase) Write(_ context.Context, fn func(journal.Conn) error) error { return fn(d) }

func (d failingDatabase) Read(_ context.Context, _ bool, fn func(journal.Conn) error) error {
	return fn(d)
}

func (d failingDatabase) Explain(err error) error { return err }

func (d failingDatabase) Lock() string { return "" }

func (d failingDatabase) Again() bool { return false }

func (d failingDatabase) QueryRow(query string, _ ...any) journal.Row {
	for _, beginning := range d.answered {
		if strings.HasPrefix(query, beginning) {
			return failedRow{}
		}
	}
	return failedRow{errDisk}
}

// failedRow is a row whose Scan returns err.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// TestAFailingDatabaseIsNotMistakenForContent checks that a query's error is returned as it is, and not as the finding
// that a session exists or that the journal has content.
func TestAFailingDatabaseIsNotMistakenForContent(t *testing.T) {
	db := journal.New(failingDatabase{answered: []string{"SELECT id, head_seq FROM sessions"}})
	_, err := db.Fork(t.Context(), journal.ForkInput{Session: "s", ID: "f", At: 1})
	require.ErrorIs(t, err, errDisk)
	require.NotErrorIs(t, err, journal.ErrExists)

	db = journal.New(failingDatabase{answered: []string{"SELECT id FROM journal"}})
	_, err = db.Sealed(t.Context(), codectest.Keys(t))
	require.ErrorIs(t, err, errDisk)
	assert.NotErrorIs(t, err, journal.ErrSealed)
}
