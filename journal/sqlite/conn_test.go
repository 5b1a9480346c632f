package sqlite

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

// openHere opens a journal with access to its internals.
func openHere(t *testing.T) *database {
	t.Helper()
	db, err := openFile(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

// deafen makes a connection fail a statement before SQLite receives it, as a fault of the driver would.
func deafen(t *testing.T, c journal.Conn, statement string) {
	t.Helper()
	s, err := c.(*conn).prepare(t.Context(), statement)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// TestAReaderThatStaysInItsTransactionIsReplaced checks that a connection that could not leave its transaction is
// replaced. Otherwise every later reader would see that moment's state, or nothing.
func TestAReaderThatStaysInItsTransactionIsReplaced(t *testing.T) {
	db := openHere(t)
	look := func(c journal.Conn) error {
		var n int
		return c.QueryRow(`SELECT count(*) FROM sessions`).Scan(&n)
	}
	require.NoError(t, db.Read(t.Context(), false, func(c journal.Conn) error {
		deafen(t, c, "ROLLBACK")
		return look(c)
	}))
	for range readers + 1 { // every slot of the pool
		require.NoError(t, db.Read(t.Context(), false, look))
	}
}

func TestAWriterThatStaysInItsTransactionIsReplaced(t *testing.T) {
	db := openHere(t)
	oops := errors.New("oops")
	insert := func(c journal.Conn, id string) error {
		return c.Exec(`INSERT INTO blobs (hash, media_type, size, encoding, bytes) VALUES (?, '', 0, '', x'')`, id)
	}
	require.ErrorIs(t, db.Write(t.Context(), func(c journal.Conn) error {
		deafen(t, c, "ROLLBACK")
		return errors.Join(oops, insert(c, "left"))
	}), oops)
	require.NoError(t, db.Write(t.Context(), func(c journal.Conn) error { return insert(c, "kept") }))
	require.NoError(t, db.Read(t.Context(), false, func(c journal.Conn) error {
		var hash string
		err := c.QueryRow(`SELECT group_concat(hash) FROM blobs`).Scan(&hash)
		assert.Equal(t, "kept", hash)
		return err
	}))
}

func TestAJournalIsClosedWithoutItsWriter(t *testing.T) {
	db := openHere(t)
	require.Error(t, db.Write(t.Context(), func(c journal.Conn) error {
		deafen(t, c, "ROLLBACK")
		return errors.New("oops")
	}))
	require.NoError(t, db.Close())
	assert.ErrorIs(t, db.Write(t.Context(), func(journal.Conn) error { return nil }), errClosed)
}
