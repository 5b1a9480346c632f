package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/workflows/turn"
)

func TestOpenNeedsTheTables(t *testing.T) {
	server := pgtest.Start(t)
	url := server.Empty(t)
	_, err := postgres.Open(t.Context(), url, postgres.Options{})
	require.ErrorIs(t, err, postgres.ErrNotMigrated)

	var wg sync.WaitGroup
	created := make([]bool, 8)
	for i := range created {
		wg.Go(func() {
			var err error
			created[i], err = postgres.Migrate(t.Context(), url)
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	n := 0
	for _, c := range created {
		if c {
			n++
		}
	}
	assert.Equal(t, 1, n, "one of many migrates")
	open(t, url, postgres.Options{})

	require.NoError(t, server.Exec(t.Context(), url, `UPDATE journal SET schema_version = 3`))
	_, err = postgres.Open(t.Context(), url, postgres.Options{})
	require.ErrorIs(t, err, postgres.ErrNotMigrated)
	_, err = postgres.Migrate(t.Context(), url)
	require.ErrorContains(t, err, "import them into a new journal")

	require.NoError(t, server.Exec(t.Context(), url, `UPDATE journal SET schema_version = 99`))
	open(t, url, postgres.Options{}) // of a newer program, which this one can also use
	require.NoError(t, server.Exec(t.Context(), url, `UPDATE journal SET min_program = 99`))
	_, err = postgres.Open(t.Context(), url, postgres.Options{})
	require.ErrorIs(t, err, journal.ErrNewer)
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	server := pgtest.Start(t)
	once := postgres.Options{RetryFor: time.Millisecond}
	for url, says := range map[string]string{
		"postgres://u:secret@[":                           "use postgres://",
		server.URL() + "&database=nothing":                "no such database",
		"postgres:///postgres?user=u&host=" + t.TempDir(): "cannot be reached",
	} {
		_, err := postgres.Open(t.Context(), url, once)
		require.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), "secret")
	}
}

// TestNothingIsLostOrDoubled cuts connections and kills the server. Each acknowledged append is there exactly once and
// in order, and a follower reads exactly these events.
func TestNothingIsLostOrDoubled(t *testing.T) {
	server := pgtest.Start(t)
	db := open(t, server.Journal(t), postgres.Options{RetryFor: time.Minute})
	const turns, appends = 4, 150
	var wg sync.WaitGroup
	steps := make(chan struct{}, turns*appends)
	for i := range turns {
		name := fmt.Sprint("t", i)
		wg.Go(func() { assert.NoError(t, appendAll(t.Context(), db, name, appends, steps)) })
		wg.Go(func() { followAll(t, db, name, appends) })
	}
	for i := range 6 { // at observed moments
		for range turns * appends / 8 {
			<-steps
		}
		if i%3 != 2 {
			require.NoError(t, server.Cut(t.Context()))
			continue
		}
		require.NoError(t, server.Kill())
		require.NoError(t, server.Run(t.Context()))
	}
	wg.Wait()
}

func appendAll(ctx context.Context, db *journal.DB, name string, n int, steps chan<- struct{}) error {
	begun, err := db.Begin(ctx, turn.BeginInput{Session: "s-" + name, Turn: name,
		Message: turn.UserMessage{ID: "m", Text: "go"}, At: time.Now()})
	if err != nil {
		return err
	}
	key := journal.StepKey{Turn: name, Step: 1}
	if _, err := db.StartInference(ctx, journal.StartInference{Session: "s-" + name, Key: key, Expect: begun.Head,
		At: time.Now()}); err != nil {
		return err
	}
	for i := range n {
		e := turn.Event{Kind: turn.EventTextDelta, Text: fmt.Sprint(i), At: time.Now()}
		if err := db.AppendEvents(ctx, key, 1, []turn.Event{e}); err != nil {
			return err
		}
		steps <- struct{}{}
	}
	_, err = db.Finish(ctx, turn.FinishInput{Session: "s-" + name, Turn: name,
		Result: turn.Result{State: turn.StateCompleted}, At: time.Now()})
	return err
}

func followAll(t *testing.T, db *journal.DB, name string, n int) {
	next := 0
	for e, err := range follow.Turn(t.Context(), db, name, -1) {
		if !assert.NoError(t, err) {
			return
		}
		if e.Kind == turn.EventTextDelta {
			assert.Equal(t, fmt.Sprint(next), e.Text)
			next++
		}
	}
	assert.Equal(t, n, next)
}

// TestAWorkersReportExpires ages the report of a worker that was killed.
func TestAWorkersReportExpires(t *testing.T) {
	server := pgtest.Start(t)
	url := server.Empty(t)
	_, err := postgres.Migrate(t.Context(), url)
	require.NoError(t, err)
	db := open(t, url, postgres.Options{})
	require.NoError(t, db.ReportWorker(t.Context(), fleet.WorkerReport{ID: "killed"}))
	list, err := db.Workers(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, server.Exec(t.Context(), url,
		fmt.Sprintf(`UPDATE workers SET seen_at = seen_at - %d`, fleet.WorkerExpiry)))
	list, err = db.Workers(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list)
}
