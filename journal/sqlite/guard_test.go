package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

// TestAGuardedJournalThatIsAwayIsAskedByOne: while another program holds the file, one write at a time tries.
func TestAGuardedJournalThatIsAwayIsAskedByOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	plain, err := Open(t.Context(), path, Options{BusyTimeout: 100 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plain.Close()) })
	db := plain.Guarded()
	hash, err := db.PutBlob(t.Context(), "text/plain", []byte("before"))
	require.NoError(t, err)

	raw, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, raw.Close()) })
	holder, err := raw.Conn(t.Context())
	require.NoError(t, err)
	_, err = holder.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)

	put := func() *journal.AwayError {
		_, err := db.Tenant("other").PutBlob(t.Context(), "text/plain", []byte("meanwhile"))
		var away *journal.AwayError
		if err != nil {
			require.ErrorAs(t, err, &away)
			require.ErrorIs(t, err, journal.ErrUnavailable)
		}
		return away
	}
	first := put()
	require.NotNil(t, first)
	began := time.Now()
	for range 20 {
		again := put()
		require.NotNil(t, again)
		assert.Equal(t, first.Since, again.Since)
		assert.Positive(t, again.Retry)
	}
	assert.Less(t, time.Since(began), time.Second, "20 writes that wait for the lock would take 2 s")
	_, err = db.GetBlob(t.Context(), hash)
	require.NoError(t, err, "reads are possible")

	_, err = holder.ExecContext(context.Background(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, holder.Close())
	select {
	case <-first.Back:
		t.Fatal("nobody has asked")
	case <-time.After(put().Retry):
	}
	assert.Nil(t, put())
	<-first.Back
}

// TestARefusalIsNoOutage: an error of the caller, or a caller that leaves, says nothing about the journal.
func TestARefusalIsNoOutage(t *testing.T) {
	t.Parallel()
	plain, err := Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plain.Close()) })
	db := plain.Guarded()
	_, err = db.Turn(t.Context(), "no such turn")
	require.ErrorIs(t, err, journal.ErrNotFound)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = db.PutBlob(ctx, "text/plain", []byte("x"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = db.PutBlob(t.Context(), "text/plain", []byte("x"))
	require.NoError(t, err)
}
