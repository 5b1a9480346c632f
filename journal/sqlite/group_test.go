package sqlite

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

// inOneGroup runs transactions that all wait for the writer before the first one runs.
func inOneGroup(t *testing.T, db *database, list ...func(journal.Conn) error) (errs []error, panics []any) {
	t.Helper()
	errs, panics = make([]error, len(list)), make([]any, len(list))
	db.writeToken <- struct{}{}
	var wg sync.WaitGroup
	for i, fn := range list {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = db.Write(context.Background(), fn)
		})
		require.Eventually(t, func() bool {
			db.queue.mu.Lock()
			defer db.queue.mu.Unlock()
			return len(db.queue.list) == i+1
		}, time.Minute, time.Millisecond)
	}
	<-db.writeToken
	wg.Wait()
	return errs, panics
}

func insertBlob(name, bytes string) func(journal.Conn) error {
	return func(c journal.Conn) error {
		return c.Exec(`INSERT INTO blobs (hash, media_type, size, encoding, bytes) VALUES (?, '', 0, '', ?)`, name,
			[]byte(bytes))
	}
}

func blobs(t *testing.T, db *database) (names string) {
	t.Helper()
	require.NoError(t, db.Read(t.Context(), false, func(c journal.Conn) error {
		return c.QueryRow(`SELECT coalesce(group_concat(hash ORDER BY hash), '') FROM blobs`).Scan(&names)
	}))
	return names
}

func TestTransactionsOfAGroupFailAlone(t *testing.T) {
	db := openHere(t)
	oops := errors.New("oops")
	errs, panics := inOneGroup(t, db, insertBlob("a", ""),
		func(c journal.Conn) error { return errors.Join(insertBlob("b", "")(c), oops) },
		insertBlob("a", ""), // already there
		func(c journal.Conn) error { _ = insertBlob("c", "")(c); panic("broken") },
		insertBlob("d", ""))
	assert.NoError(t, errs[0])
	assert.ErrorIs(t, errs[1], oops)
	assert.Error(t, errs[2])
	assert.Equal(t, "broken", panics[3])
	assert.NoError(t, errs[4])
	assert.Equal(t, "a,d", blobs(t, db))
}

func TestAFullDiskFailsWhatDoesNotFit(t *testing.T) {
	db := openHere(t)
	large := func(c journal.Conn) error {
		if err := c.QueryRow(`PRAGMA max_page_count = 100`).Scan(new(int)); err != nil {
			return err
		}
		return insertBlob("b", strings.Repeat("x", 1<<20))(c)
	}
	errs, _ := inOneGroup(t, db, insertBlob("a", ""), large, insertBlob("c", ""))
	assert.NoError(t, errs[0])
	assert.ErrorContains(t, db.Explain(errs[1]), "the disk is full")
	assert.NoError(t, errs[2])
	assert.Equal(t, "a,c", blobs(t, db))
}

func TestALostTransactionFailsNoneOfItsGroup(t *testing.T) {
	db := openHere(t)
	var once sync.Once
	errs, _ := inOneGroup(t, db, insertBlob("a", ""), func(c journal.Conn) error {
		once.Do(func() {
			deafen(t, c, "COMMIT")
			deafen(t, c, "ROLLBACK") // the connection is discarded
		})
		return insertBlob("b", "")(c)
	}, insertBlob("c", ""))
	assert.Equal(t, []error{nil, nil, nil}, errs)
	assert.Equal(t, "a,b,c", blobs(t, db))
}

func TestAWriteThatWaitsInAGroupIsCancelled(t *testing.T) {
	db := openHere(t)
	db.writeToken <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, db.Write(ctx, insertBlob("a", "")), context.Canceled)
	<-db.writeToken
	require.NoError(t, db.Write(t.Context(), insertBlob("b", "")))
	assert.Equal(t, "b", blobs(t, db))
}
