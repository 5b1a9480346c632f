package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openHere opens a store whose insides the test may break.
func openHere(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// deafen makes a connection fail a statement before SQLite hears of it, as a fault of the driver would.
func deafen(t *testing.T, c *conn, statement string) {
	t.Helper()
	s, err := c.prepare(t.Context(), statement)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// A reader that could not leave its transaction would show every later reader that moment's state, or none.
func TestAReaderThatStaysInItsTransactionIsReplaced(t *testing.T) {
	s := openHere(t)
	look := func(q querier) error {
		var n int
		return q.row(`SELECT count(*) FROM sessions`).Scan(&n)
	}
	require.NoError(t, s.read(t.Context(), "looking", func(q querier) error {
		deafen(t, q.conn, "ROLLBACK")
		return look(q)
	}))
	for range readers + 1 { // every slot of the pool
		require.NoError(t, s.read(t.Context(), "looking again", look))
	}
}

func TestAWriterThatStaysInItsTransactionIsReplaced(t *testing.T) {
	s := openHere(t)
	oops := errors.New("oops")
	insert := func(x *tx, id string) error {
		return x.exec(`INSERT INTO blobs (hash, media_type, size, encoding, bytes) VALUES (?, '', 0, '', x'')`, id)
	}
	require.ErrorIs(t, s.write(t.Context(), "writing", func(x *tx) error {
		deafen(t, x.conn, "ROLLBACK")
		return errors.Join(oops, insert(x, "left"))
	}), oops)
	require.NoError(t, s.write(t.Context(), "writing again", func(x *tx) error { return insert(x, "kept") }))
	var hashes []string
	require.NoError(t, s.read(t.Context(), "looking", func(q querier) error {
		return q.each(func(rows *sql.Rows) error {
			var hash string
			err := rows.Scan(&hash)
			hashes = append(hashes, hash)
			return err
		}, `SELECT hash FROM blobs`)
	}))
	assert.Equal(t, []string{"kept"}, hashes)
}

func TestAStoreIsClosedWithoutItsWriter(t *testing.T) {
	s := openHere(t)
	require.Error(t, s.write(t.Context(), "writing", func(x *tx) error {
		deafen(t, x.conn, "ROLLBACK")
		return errors.New("oops")
	}))
	require.NoError(t, s.Close())
	assert.ErrorIs(t, s.write(t.Context(), "writing", func(*tx) error { return nil }), errClosedStore)
}
