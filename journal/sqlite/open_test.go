package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

func beginOf(session, turnID string) turn.BeginInput {
	return turn.BeginInput{Session: session, Turn: turnID, Message: turn.UserMessage{ID: "m-" + turnID, Text: "hello"},
		At: time.Unix(1, 0)}
}

// raw opens the file independently of the journal, as another program would.
func raw(t *testing.T, path string, statements ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	for _, s := range statements {
		_, err := db.Exec(s)
		require.NoError(t, err)
	}
	return db
}

func TestOpenCreatesFolderAndFileForTheOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "odd %41 ? # name")
	path := filepath.Join(dir, "journal ?mode=memory#.db")
	db := open(t, path, sqlite.Options{})
	_, err := db.Begin(t.Context(), beginOf("s", "t"))
	require.NoError(t, err)
	for name, mode := range map[string]os.FileMode{dir: 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode().Perm(), name)
	}
}

func TestOpenAgainFindsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db := open(t, path, sqlite.Options{})
	begun, err := db.Begin(t.Context(), beginOf("s", "t"))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = db.Turn(t.Context(), "t")
	assert.ErrorContains(t, err, "closed")
	_, err = db.Begin(t.Context(), beginOf("s", "t"))
	assert.ErrorContains(t, err, "closed")

	again, err := open(t, path, sqlite.Options{}).Turn(t.Context(), "t")
	require.NoError(t, err)
	assert.Equal(t, begun.Turn, again)
}

func TestOpenRefusesWhatIsNoJournal(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("this is not a database\n", 100)), 0o600))
	other := filepath.Join(dir, "other.db")
	require.NoError(t, statedir.SecureFile(other))
	raw(t, other, `CREATE TABLE bookmarks (url TEXT)`)
	newer := filepath.Join(dir, "newer.db")
	require.NoError(t, open(t, newer, sqlite.Options{}).Close())
	raw(t, newer, `UPDATE journal SET schema_version = 99, min_program = 99`)
	older := filepath.Join(dir, "older.db")
	require.NoError(t, open(t, older, sqlite.Options{}).Close())
	raw(t, older, `UPDATE journal SET schema_version = 3, min_program = 1`)
	for _, c := range []struct{ path, says string }{
		{text, "not a SQLite database"},
		{other, "another program"},
		{newer, "newer version"},
		{older, "import them into a new journal"},
		{dir, "choose another path"},
		{filepath.Join(text, "journal.db"), "choose a folder"},
	} {
		db, err := sqlite.Open(t.Context(), c.path, sqlite.Options{})
		require.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, err, c.path)
		assert.Nil(t, db)
		assert.Equal(t, c.path == newer, errors.Is(err, journal.ErrNewer))
	}
	_, err := sqlite.Open(t.Context(), filepath.Join(dir, "x.db"), sqlite.Options{Synchronous: "sometimes"})
	assert.ErrorContains(t, err, `use "full" or "normal"`)
	b, err := os.ReadFile(text)
	require.NoError(t, err)
	assert.Len(t, b, 2300, "the file is left as it was")
}

func TestLockedFileIsWaitedForAndThenNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db := open(t, path, sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	other := raw(t, path, `BEGIN IMMEDIATE`)
	_, err := db.Begin(t.Context(), beginOf("s", "t"))
	require.ErrorContains(t, err, "another program has held "+path)
	assert.ErrorContains(t, err, "try again")
	second := open(t, path, sqlite.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = second.Begin(ctx, beginOf("s", "t"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, journal.ErrUnavailable, "the lock is named all the same")
	_, err = db.Sessions(t.Context(), 1)
	require.NoError(t, err, "readers do not wait for writers")

	_, err = other.Exec(`ROLLBACK`)
	require.NoError(t, err)
	_, err = db.Begin(t.Context(), beginOf("s", "t"))
	require.NoError(t, err)
}

// TestWritersWaitForALockTogether checks that BusyTimeout is how long each writer waits, and not each one after the
// others.
func TestWritersWaitForALockTogether(t *testing.T) {
	const busy, writers = time.Second, 20
	path := filepath.Join(t.TempDir(), "journal.db")
	db := open(t, path, sqlite.Options{BusyTimeout: busy})
	raw(t, path, `BEGIN IMMEDIATE`)
	ctx, cancel := context.WithTimeout(t.Context(), busy*writers/2)
	defer cancel()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			_, err := db.Begin(ctx, beginOf("s", fmt.Sprint("t", i)))
			assert.ErrorIs(t, err, journal.ErrUnavailable)
		})
	}
	wg.Wait()
}

func TestWriteWaitsForAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db := open(t, path, sqlite.Options{})
	other := raw(t, path, `BEGIN IMMEDIATE`)
	begun := make(chan error, 1)
	go func() {
		_, err := db.Begin(t.Context(), beginOf("s", "t"))
		begun <- err
	}()
	_, err := other.Exec(`ROLLBACK`)
	require.NoError(t, err)
	assert.NoError(t, <-begun)
}

func TestOpenNamesAFileThatAnotherProgramKeepsForItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	require.NoError(t, open(t, path, sqlite.Options{}).Close())
	raw(t, path, `PRAGMA locking_mode = exclusive`, `BEGIN IMMEDIATE`, `COMMIT`)
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	assert.ErrorContains(t, err, "another program has held "+path)
}

// TestCloseEndsFollowers checks that closing the journal ends its followers and everything that the journal started
// (goleak).
func TestCloseEndsFollowers(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{})
	changed := db.Changed(t.Context())
	require.NoError(t, db.Close())
	<-changed
	for _, err := range follow.Turn(t.Context(), db, "t", -1) {
		assert.ErrorContains(t, err, "closed")
	}
}

// TestContentIsStoredOnceAndTheFileStaysSmall checks that a tool's result is stored once in the file, although both the
// ledger and the transcript refer to it.
func TestContentIsStoredOnceAndTheFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	db := open(t, path, sqlite.Options{Synchronous: "normal"})
	begun, err := db.Begin(t.Context(), beginOf("s", "t"))
	require.NoError(t, err)
	const hops = 100
	hop(t, db, begun.Head, hops, 5000)
	require.NoError(t, db.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	const empty = 256 << 10 // the tables, each of which has a page
	assert.Less(t, info.Size(), int64(empty+hops*5000*3/2), "100 hops with 5 kB results")
}

// hop runs a turn through n hops, each with a result of size bytes.
func hop(t *testing.T, db *journal.DB, head turn.Head, n, size int) {
	t.Helper()
	var results []turn.CallOutcome
	for step := 1; step <= n; step++ {
		key := journal.StepKey{Turn: "t", Step: step}
		c := turn.ToolCall{ID: fmt.Sprintf("%d.0", step), Tool: "local/x", Arguments: "{}"}
		_, err := db.StartInference(t.Context(),
			journal.StartInference{Session: "s", Key: key, Expect: head, Outcomes: results})
		require.NoError(t, err)
		out, err := db.SettleInference(t.Context(), journal.SettleInference{
			Session: "s", Key: key, Attempt: 1, Message: turn.Message{Text: "look", ToolCalls: []turn.ToolCall{c}},
			Answer: turn.Completion{Text: "look"},
		})
		require.NoError(t, err)
		_, err = db.ClaimCall(t.Context(), journal.CallRecord{Turn: "t", Step: step, Call: c, Attempt: 1}, false)
		require.NoError(t, err)
		text := strings.Repeat(c.ID+" ", size/(len(c.ID)+1))
		_, err = db.SettleCall(t.Context(), "t", c.ID, 1, turn.ToolResult{Outcome: turn.OutcomeOK, Text: text,
			Full: []byte(text)}, time.Time{})
		require.NoError(t, err)
		head, results = out.Head, []turn.CallOutcome{{CallID: c.ID}}
	}
}

// TestAJournalOfAnotherAuthorIsRefused checks that a journal which came with an archive is not used, wherever it is: it
// may contain grants.
func TestAJournalOfAnotherAuthorIsRefused(t *testing.T) {
	author, here := t.TempDir(), filepath.Join(t.TempDir(), "unpacked")
	require.NoError(t, open(t, filepath.Join(author, "data.db"), sqlite.Options{}).Close())
	require.NoError(t, os.CopyFS(here, os.DirFS(author)))
	_, err := sqlite.Open(t.Context(), filepath.Join(here, "data.db"), sqlite.Options{})
	assert.ErrorContains(t, err, "was not made here")
	require.NoError(t, open(t, filepath.Join(author, "data.db"), sqlite.Options{}).Close())
}
