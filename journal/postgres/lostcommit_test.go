package postgres_test

import (
	"bytes"
	"database/sql"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/postgres/pgtest"
	"github.com/everturn/everturn/workflows/turn"
)

// deafProxy forwards connections to a server's socket. If it is armed, it drops the reply to the next commit.
type deafProxy struct {
	server string
	armed  atomic.Bool
	lost   atomic.Int64
	cut    atomic.Bool // end the next connection at its first statement
}

// preparesCommit matches the message that prepares the statement "commit", by its name.
var preparesCommit = regexp.MustCompile("([a-z0-9_]+)\x00commit\x00")

// listen returns the server's URL with the proxy's address.
func (p *deafProxy) listen(t *testing.T, url string) string {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	host, rest, _ := strings.Cut(url[strings.Index(url, "host=")+len("host="):], "&")
	p.server = filepath.Join(host, ".s.PGSQL.5432")
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(client)
		}
	}()
	return url[:strings.Index(url, "host=")] + "host=" + dir + "&" + rest
}

func (p *deafProxy) pass(client net.Conn) {
	server, err := net.Dial("unix", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	var deaf atomic.Bool // drop the reply to the last statement
	go func() {
		defer server.Close()
		var commit []byte // the name of the connection's prepared statement
		buf := make([]byte, 64<<10)
		for reads := 1; ; reads++ {
			n, err := client.Read(buf)
			if reads == 2 && p.cut.CompareAndSwap(true, false) {
				return
			}
			if m := preparesCommit.FindSubmatch(buf[:n]); m != nil {
				commit = append(bytes.Clone(m[1]), 0)
			} else if commit != nil && bytes.Contains(buf[:n], commit) && p.armed.CompareAndSwap(true, false) {
				deaf.Store(true)
			}
			if _, werr := server.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}()
	defer client.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if deaf.Load() && n > 0 { // the server has committed
			p.lost.Add(1)
			return
		}
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// TestALostCommitIsNotRepeated checks that the journal looks up whether a transaction was committed if the reply to its
// commit is lost: appends have no key that reveals a repetition.
func TestALostCommitIsNotRepeated(t *testing.T) {
	server := pgtest.Start(t)
	proxy := &deafProxy{}
	db := open(t, proxy.listen(t, server.Journal(t)), postgres.Options{})
	key, at := journal.StepKey{Turn: "t", Step: 1}, time.Now()
	call := turn.ToolCall{ID: "1.0", Tool: "local/x", Arguments: "{}"}
	begin := turn.BeginInput{Session: "s", Turn: "t", Message: turn.UserMessage{ID: "m", Text: "go"}, At: at}
	var begun journal.BeginResult
	var attempt int
	for _, write := range []func() error{
		func() (err error) { begun, err = db.Begin(t.Context(), begin); return err },
		func() error {
			in := journal.StartInference{Session: "s", Key: key, Expect: begun.Head, At: at}
			inf, err := db.StartInference(t.Context(), in)
			attempt = inf.Attempt
			return err
		},
		func() error {
			return db.AppendEvents(t.Context(), key, attempt, []turn.Event{{Kind: turn.EventTextDelta, Text: "once", At: at}})
		},
		func() error {
			_, err := db.SettleInference(t.Context(), journal.SettleInference{Session: "s", Key: key, Attempt: attempt, At: at,
				Message: turn.Message{Text: "once", ToolCalls: []turn.ToolCall{call}}, Answer: turn.Completion{Text: "once"}})
			return err
		},
		func() error {
			claim, err := db.ClaimCall(t.Context(), journal.CallRecord{Turn: "t", Step: 1, Call: call, Attempt: 1,
				ClaimedAt: at}, false)
			assert.Equal(t, journal.ClaimGranted, claim.Claim, "its own claim is no other's")
			return err
		},
		func() error { return db.NoteCall(t.Context(), "t", "1.0", 1, turn.ToolProgress{Message: "once"}, at) },
		func() error {
			_, err := db.SettleCall(t.Context(), "t", "1.0", 1, turn.ToolResult{Outcome: turn.OutcomeOK, Text: "done"}, at)
			return err
		},
		func() error {
			_, err := db.Fork(t.Context(), journal.ForkInput{Session: "s", At: 1, ID: "f", Time: at})
			return err
		},
		func() error {
			_, err := db.Finish(t.Context(), turn.FinishInput{Session: "s", Turn: "t",
				Result: turn.Result{State: turn.StateCompleted}, At: at})
			return err
		},
		func() error { return approveTools(t, db, proxy) },
		func() error { hasToken(t, db, db, createToken(t, db)); return nil },
	} {
		proxy.armed.Store(true)
		require.NoError(t, write())
	}
	assert.EqualValues(t, 11, proxy.lost.Load())
	events, err := db.Events(t.Context(), "t", -1, 100)
	require.NoError(t, err)
	var kinds []turn.EventKind
	for _, e := range events {
		if e.Kind != turn.EventPhase {
			kinds = append(kinds, e.Kind)
		}
	}
	assert.Equal(t, []turn.EventKind{turn.EventTurnStarted, turn.EventTextDelta, turn.EventInferenceCompleted,
		turn.EventToolCallStarted,
		turn.EventToolProgress,
		turn.EventToolCallCompleted, turn.EventTurnCompleted}, kinds)

	proxy.armed.Store(true)
	n, err := db.PruneEvents(t.Context(), at.Add(time.Hour), 10)
	require.NoError(t, err)
	assert.Equal(t, 1, n)

	assert.EqualValues(t, 12, proxy.lost.Load())

	target := &deafProxy{}
	to := open(t, target.listen(t, server.Journal(t)), postgres.Options{})
	target.armed.Store(true)
	n, err = journal.Copy(t.Context(), db, to)
	require.NoError(t, err)
	assert.Equal(t, 2, n, "the session and its fork")
	assert.EqualValues(t, 1, target.lost.Load())
}

// approveTools loses the reply to the approval of a tool that has changed.
func approveTools(t *testing.T, db *journal.DB, proxy *deafProxy) error {
	proxy.armed.Store(false)
	for _, hash := range []string{"before", "now"} {
		c := turn.Catalogue{Server: "x", Hash: hash, Tools: []turn.Descriptor{{ID: "mcp/x/t", Hash: hash}}}
		require.NoError(t, db.PublishCatalogue(t.Context(), c))
	}
	proxy.armed.Store(true)
	approved, err := db.ApproveTools(t.Context(),
		journal.ApproveToolsInput{Server: "x", Tools: []string{"t"}, By: "me", At: time.Now()})
	assert.Len(t, approved, 1)
	return err
}

// TestOpenRetriesALostConnection ends the connection of Open at its first statement.
func TestOpenRetriesALostConnection(t *testing.T) {
	proxy := &deafProxy{}
	url := proxy.listen(t, pgtest.Start(t).Journal(t))
	proxy.cut.Store(true)
	open(t, url, postgres.Options{})
	assert.False(t, proxy.cut.Load())
}

// TestIdleTransactionsEnd checks the limit of each transaction, which the connection does not keep, and that a
// transaction that the server ends runs again.
func TestIdleTransactionsEnd(t *testing.T) {
	db, err := postgres.Connect(pgtest.Start(t).Journal(t), postgres.Options{MaxConns: 1})
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	const show = "show idle_in_transaction_session_timeout"
	var limits [4]string
	runs := 0
	require.NoError(t, db.Write(t.Context(), func(c journal.Conn) error {
		if runs++; runs > 1 {
			return c.QueryRow(show).Scan(&limits[0])
		}
		err := c.Exec("set local idle_in_transaction_session_timeout = 1")
		if err == nil {
			err = c.QueryRow(show).Scan(&limits[0])
		}
		for err == nil { // until the server has ended the transaction
			time.Sleep(20 * time.Millisecond)
			err = c.QueryRow(show).Scan(&limits[0])
		}
		return err
	}))
	assert.Equal(t, 2, runs)
	for i, once := range []bool{false, true} {
		require.NoError(t, db.Read(t.Context(), once, func(c journal.Conn) error {
			return c.QueryRow(show).Scan(&limits[1+i])
		}))
	}
	require.NoError(t, db.Read(t.Context(), false, func(c journal.Conn) error {
		if err := c.Exec("rollback"); err != nil {
			return err
		}
		return c.QueryRow(show).Scan(&limits[3])
	}))
	assert.Equal(t, [4]string{"10s", "10s", "0", "0"}, limits, "the last is outside of transactions")
}

// TestContentCountsTowardsABatch checks that a statement whose content fills a batch is sent at once, so that a
// transaction keeps no more than a batch in memory.
func TestContentCountsTowardsABatch(t *testing.T) {
	db, err := postgres.Connect(pgtest.Start(t).Journal(t), postgres.Options{MaxConns: 1})
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	const noTable = `INSERT INTO none VALUES (?)` // the server refuses it when it is sent
	text := strings.Repeat("x", 1<<20)
	for _, arg := range []any{text, []byte(text), sql.NullString{String: text, Valid: true}} {
		require.ErrorContains(t, db.Write(t.Context(), func(c journal.Conn) error {
			err := c.Exec(noTable, arg)
			assert.Error(t, err, "%T", arg)
			return err
		}), `"none"`)
	}
}
