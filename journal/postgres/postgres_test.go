package postgres_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/codec/codectest"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/journaltest"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/postgres/pgtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("-short: the tests on a Postgres server are skipped")
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, url string, opts postgres.Options) *journal.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func TestConformance(t *testing.T) {
	server := pgtest.Start(t)
	journaltest.Run(t, func(t *testing.T) *journal.DB {
		return open(t, server.Journal(t), postgres.Options{})
	})
}

func TestConformanceOfAnEncryptedJournal(t *testing.T) {
	server, keys := pgtest.Start(t), codectest.Keys(t)
	sealed := func(t *testing.T, url string) *journal.DB {
		db, err := open(t, url, postgres.Options{}).Sealed(t.Context(), keys)
		require.NoError(t, err)
		return db
	}
	journaltest.Run(t, func(t *testing.T) *journal.DB { return sealed(t, server.Journal(t)) })
	journaltest.RunPair(t, func(t *testing.T) (a, b *journal.DB) {
		url := server.Journal(t)
		return sealed(t, url), sealed(t, url)
	})
}

func TestConformanceOfTwoOpens(t *testing.T) {
	server := pgtest.Start(t)
	journaltest.RunPair(t, func(t *testing.T) (a, b *journal.DB) {
		url := server.Journal(t)
		return open(t, url, postgres.Options{}), open(t, url, postgres.Options{})
	})
}
