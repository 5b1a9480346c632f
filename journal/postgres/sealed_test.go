package postgres_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/codec"
	"github.com/everturn/everturn/codec/codectest"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// file opens a SQLite journal.
func file(t *testing.T, path string) *journal.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	require.NoError(t, err)
	return db
}

func sealed(t *testing.T, db *journal.DB, keys journal.Keys) *journal.DB {
	t.Helper()
	db, err := db.Sealed(t.Context(), keys)
	require.NoError(t, err)
	return db
}

// dump returns every row of every table, as text.
func dump(t *testing.T, url string) string {
	t.Helper()
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer db.Close()
	var all strings.Builder
	tables := column(t, db, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`)
	require.NotEmpty(t, tables)
	for _, table := range tables {
		for _, row := range column(t, db, `SELECT x::text FROM "`+table+`" x`) {
			all.WriteString(table + " " + row + "\n")
		}
	}
	for _, b := range column(t, db, `SELECT encode(bytes, 'escape') FROM blobs`) {
		all.WriteString("blob " + b + "\n")
	}
	return all.String()
}

func column(t *testing.T, db *sql.DB, query string) (list []string) {
	t.Helper()
	rows, err := db.Query(query)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var s string
		require.NoError(t, rows.Scan(&s))
		list = append(list, s)
	}
	require.NoError(t, rows.Err())
	return list
}

// unreadable checks that the stored form of what fill has written holds neither content nor a hash of it.
func unreadable(t *testing.T, db *journal.DB, stored string) {
	t.Helper()
	require.NotEmpty(t, stored)
	assert.NotContains(t, stored, "canary")
	list, err := db.Messages(t.Context(), "s", 1, 10)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	var head turn.Head
	for _, m := range list {
		head = journal.Next(head, m)
		assert.NotContains(t, stored, head.Hash, "the hash of message %d", head.Seq)
		assert.NotContains(t, stored, journal.HashOf([]byte(m.Text)))
		for _, c := range m.ToolCalls {
			assert.NotContains(t, stored, journal.HashOf([]byte(c.Arguments)))
		}
	}
	calls, err := db.Calls(t.Context(), "t")
	require.NoError(t, err)
	for _, c := range calls {
		assert.NotContains(t, stored, c.FullBlob)
		assert.NotContains(t, stored, c.Media[0].Hash)
		_, _, err := db.Artifact(t.Context(), "t", c.FullBlob)
		assert.NoError(t, err)
	}
}

func TestAnEncryptedJournalHoldsNothingReadable(t *testing.T) {
	server, keys := pgtest.Start(t), codectest.Keys(t)
	url := server.Journal(t)
	inPostgres := sealed(t, open(t, url, postgres.Options{}), keys)
	fill(t, inPostgres)
	unreadable(t, inPostgres, dump(t, url))

	dir := t.TempDir()
	inSQLite := sealed(t, file(t, filepath.Join(dir, "journal.db")), keys)
	fill(t, inSQLite)
	var stored strings.Builder
	for _, f := range must(t, os.ReadDir, dir) {
		stored.Write(must(t, os.ReadFile, filepath.Join(dir, f.Name())))
	}
	unreadable(t, inSQLite, stored.String())
	require.NoError(t, inSQLite.Close())
}

func must[In, Out any](t *testing.T, do func(In) (Out, error), in In) Out {
	t.Helper()
	out, err := do(in)
	require.NoError(t, err)
	return out
}

// TestACopyIsSealedAgain copies a plain journal into an encrypted one, from there into one with other keys, and back.
func TestACopyIsSealedAgain(t *testing.T) {
	server, dir := pgtest.Start(t), t.TempDir()
	url := server.Journal(t)
	plain, first := file(t, filepath.Join(dir, "plain")), sealed(t, open(t, url, postgres.Options{}), codectest.Keys(t))
	second := sealed(t, file(t, filepath.Join(dir, "second")), codectest.Keys(t))
	back := file(t, filepath.Join(dir, "back"))
	for _, db := range []*journal.DB{plain, second, back} {
		defer db.Close()
	}
	head := fill(t, plain)
	want := contents(t, plain)
	secret := createToken(t, plain)
	for from, to := plain, first; to != nil; {
		_, err := journal.Copy(t.Context(), from, to)
		require.NoError(t, err)
		assert.Equal(t, want, contents(t, to))
		hasToken(t, plain, to, secret)
		from, to = to, map[*journal.DB]*journal.DB{first: second, second: back}[to]
	}
	unreadable(t, first, dump(t, url))
	assert.NotContains(t, dump(t, url), journal.HashOf([]byte(secret)))
	_, err := second.StartInference(t.Context(), journal.StartInference{Session: "s",
		Key: journal.StepKey{Turn: "t", Step: 2}, Expect: head, Outcomes: []turn.CallOutcome{{CallID: "1.0"}},
		At: time.Now()})
	require.NoError(t, err, "turns continue in the copy")
}

func TestAJournalIsOpenedOnlyWithItsEncryption(t *testing.T) {
	keys, path := codectest.Keys(t), filepath.Join(t.TempDir(), "journal.db")
	j := file(t, path)
	defer j.Close()
	first := sealed(t, j, keys)
	id, err := first.ID(t.Context())
	require.NoError(t, err)
	again, err := sealed(t, j, keys).ID(t.Context())
	require.NoError(t, err)
	assert.Equal(t, id, again)
	assert.Len(t, id, 36)

	_, err = j.Sealed(t.Context(), nil)
	require.ErrorIs(t, err, journal.ErrSealed)
	_, err = j.Sealed(t.Context(), codectest.Keys(t))
	require.ErrorIs(t, err, codec.ErrUnknownKey)
	fill(t, first)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`UPDATE messages SET text = substr(text, 1, length(text) - 4)`)
	require.NoError(t, err)
	_, err = first.Messages(t.Context(), "s", 1, 1)
	assert.ErrorIs(t, err, codec.ErrCiphertext)

	other := file(t, filepath.Join(t.TempDir(), "plain.db"))
	defer other.Close()
	fill(t, other)
	_, err = other.Sealed(t.Context(), keys)
	require.ErrorIs(t, err, journal.ErrSealed)
	assert.ErrorContains(t, err, "journal copy")
}
