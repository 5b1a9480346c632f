package postgres_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// TestCopy copies a journal to Postgres and back. Nothing is lost, and turns continue in each copy.
func TestCopy(t *testing.T) {
	server := pgtest.Start(t)
	file := func(name string) *journal.DB {
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), name), sqlite.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		return db
	}
	from, to, back := file("from"), open(t, server.Journal(t), postgres.Options{}), file("back")
	head := fill(t, from)
	want := contents(t, from)
	secret := createToken(t, from)

	n, err := journal.Copy(t.Context(), from, to)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Equal(t, want, contents(t, to))
	_, err = journal.Copy(t.Context(), from, to)
	require.ErrorIs(t, err, journal.ErrExists)
	_, err = journal.Copy(t.Context(), to, back)
	require.NoError(t, err)
	assert.Equal(t, want, contents(t, back))

	for _, db := range []*journal.DB{to, back} {
		hasToken(t, from, db, secret)
		granted, err := db.Grants(t.Context(), "t")
		require.NoError(t, err)
		assert.Len(t, granted, 1, "a copy keeps what an import leaves out")
		waiting, err := db.PendingRequests(t.Context(), "s", 10)
		require.NoError(t, err)
		assert.Len(t, waiting, 1)
		key := journal.StepKey{Turn: "t", Step: 2}
		results := []turn.CallOutcome{{CallID: "1.0"}}
		_, err = db.StartInference(t.Context(),
			journal.StartInference{Session: "s", Key: key, Expect: head, Outcomes: results, At: time.Now()})
		require.NoError(t, err)
		_, err = db.Begin(t.Context(), turn.BeginInput{Session: "new", Turn: "n", Message: turn.UserMessage{ID: "m"},
			At: time.Now()})
		require.NoError(t, err, "new rows get new numbers")
	}
}

// fill writes a turn that has run a call, holds a grant and waits for an answer, a fork, and a catalogue.
func fill(t *testing.T, db *journal.DB) turn.Head {
	ctx, at := t.Context(), time.Now()
	key := journal.StepKey{Turn: "t", Step: 1}
	call := turn.ToolCall{ID: "1.0", Tool: "local/x", Arguments: `{"a":"canary arguments"}`}
	begun, err := db.Begin(ctx, turn.BeginInput{Session: "s", Turn: "t", At: at,
		Message: turn.UserMessage{ID: "m", Text: "canary message"}})
	require.NoError(t, err)
	_, err = db.StartInference(ctx, journal.StartInference{Session: "s", Key: key, Expect: begun.Head, At: at})
	require.NoError(t, err)
	inf, err := db.SettleInference(ctx, journal.SettleInference{Session: "s", Key: key, Attempt: 1, At: at,
		Message: turn.Message{Text: "canary answer", ToolCalls: []turn.ToolCall{call}},
		Answer: turn.Completion{Text: "canary answer", Reasoning: "canary reasoning",
			Raw: []byte(`{"canary":"raw"}`)}})
	require.NoError(t, err)
	hash := journal.HashOf([]byte(call.Arguments))
	_, err = db.Ask(ctx, "s", "t", []turn.Request{
		{ID: "1.0", Kind: turn.RequestApproval, Step: 1, ArgumentsHash: hash},
		{ID: "q1", Kind: turn.RequestQuestion, Step: 1, Question: "canary question"},
	}, at)
	require.NoError(t, err)
	require.NoError(t, db.Decide(ctx, "s", "t", []turn.Decision{
		{ID: "1.0", Status: turn.StatusAllowed, Allowed: true, ArgumentsHash: hash, Grant: turn.GrantTool, By: "me",
			Reason: "canary reason"},
	}, at))
	_, err = db.ClaimCall(ctx, journal.CallRecord{Turn: "t", Step: 1, Call: call, Attempt: 1, ClaimedAt: at}, true)
	require.NoError(t, err)
	_, err = db.SettleCall(ctx, "t", "1.0", 1, turn.ToolResult{FromServer: true, Outcome: turn.OutcomeOK,
		Text:      "canary result",
		Full:      bytes.Repeat([]byte("canary full"), 500),
		Media:     []turn.Media{{Type: "image/png", Data: []byte("canary image")}},
		MediaType: "text/plain", Taints: true}, at)
	require.NoError(t, err)
	_, err = db.Fork(ctx, journal.ForkInput{Session: "s", At: 1, ID: "f", Time: at})
	require.NoError(t, err)
	_, err = db.PutBlob(ctx, "text/plain", nil)
	require.NoError(t, err)
	c := turn.Catalogue{Server: "x", Hash: "1", ConfigHash: "s", Tools: []turn.Descriptor{{ID: "mcp/x/t", Hash: "h"}}}
	require.NoError(t, db.PublishCatalogue(ctx, c))
	return inf.Head
}

// createToken creates a token and returns its secret.
func createToken(t *testing.T, db *journal.DB) string {
	t.Helper()
	_, secret, err := db.Tenant("acme").CreateToken(t.Context(), journal.CreateTokenInput{Principal: "ann",
		Rights: []journal.Right{journal.RightSend}, ExpiresAt: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	return secret
}

// hasToken checks that the token of a secret is the same in both journals.
func hasToken(t *testing.T, a, b *journal.DB, secret string) {
	t.Helper()
	want, err := a.TokenBySecret(t.Context(), secret)
	require.NoError(t, err)
	got, err := b.TokenBySecret(t.Context(), secret)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// contents returns what readers see of a journal.
func contents(t *testing.T, db *journal.DB) []any {
	t.Helper()
	ctx := t.Context()
	var out []any
	add := func(v any, err error) { require.NoError(t, err); out = append(out, v) }
	add(db.Catalogues(ctx))
	for _, session := range []string{"s", "f"} {
		var b bytes.Buffer
		require.NoError(t, db.Export(ctx, session, &b))
		out = append(out, b.String())
		rec, err := db.Session(ctx, session)
		add(rec, err)
		if rec.LastTurn.ID != "" {
			add(db.Taint(ctx, rec.LastTurn.ID))
			add(db.Grants(ctx, rec.LastTurn.ID))
		}
		add(db.PendingRequests(ctx, session, 10))
	}
	return out
}
