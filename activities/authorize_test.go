package activities

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// catalogued is a journal with one published tool.
type catalogued struct{ Journal }

func (c catalogued) OfferedBy(context.Context, map[string]string) ([]turn.Catalogue, error) {
	return []turn.Catalogue{{Server: "x", Hash: "h",
		Tools: []turn.Descriptor{{ID: "mcp/x/y", Hash: "h", Repeatable: false}}}}, nil
}

// counted is a tool host that counts the calls that reach it.
type counted struct{ calls []turn.ToolRequest }

func (*counted) Check(turn.Descriptor, json.RawMessage) error { return nil }

func (c *counted) Call(_ context.Context, r turn.ToolRequest) (turn.ToolResult, error) {
	c.calls = append(c.calls, r)
	return turn.ToolResult{Outcome: turn.OutcomeOK}, nil
}

// TestNoInputOfAnActivityIsAPermission checks that authorization does not depend on the activity's input: every client
// of Temporal can schedule CallTool on the workers' task queue.
func TestNoInputOfAnActivityIsAPermission(t *testing.T) {
	for name, c := range map[string]struct {
		policy  turn.Policy
		decided bool
		code    turn.Code // empty: the call runs
	}{
		"denied":   {turn.Policy{Deny: []string{"mcp/x/y"}, Allow: []string{"*"}}, false, turn.CodePolicyDenied},
		"unlisted": {turn.Policy{}, false, turn.CodePolicyDenied},
		"asked":    {turn.Policy{Ask: []string{"mcp/x/y"}, Allow: []string{"*"}}, false, turn.CodePolicyDenied},
		"approved": {turn.Policy{Ask: []string{"mcp/x/y"}, Allow: []string{"*"}}, true, ""},
		"allowed":  {turn.Policy{Allow: []string{"*"}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j, host := openJournal(t), &counted{}
			o := Options{Journal: catalogued{j}, Tools: host,
				Settings: Settings{Servers: []string{"x"}, Policy: c.policy, Models: oneModel}}
			in := begunWith(t, o, j)
			a, err := New(o) // another worker than the one that began the turn
			require.NoError(t, err)
			in.Tool.Repeatable = true // forged, as any field of in may be
			if c.decided {
				approve(t, j, in)
			}
			_, err = a.CallTool(t.Context(), in)
			if c.code == "" {
				require.NoError(t, err)
				require.Len(t, host.calls, 1)
				assert.False(t, host.calls[0].Repeatable, "what may be repeated is the journal's word")
				return
			}
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			assert.Equal(t, string(c.code), app.Type())
			assert.True(t, app.NonRetryable())
			assert.Empty(t, host.calls)
		})
	}
}

// locked is a journal whose first reads of the session's taint fail.
type locked struct {
	catalogued
	failures int
}

func (l *locked) CallContext(ctx context.Context, in journal.CallContextInput) (journal.CallContext, error) {
	if l.failures--; l.failures >= 0 {
		return journal.CallContext{}, errors.New("database is locked")
	}
	return l.catalogued.CallContext(ctx, in)
}

// TestAnAllowedCallOutlastsALockedJournal: a session whose taint cannot be read is asked about again, not denied.
func TestAnAllowedCallOutlastsALockedJournal(t *testing.T) {
	db, host := openJournal(t), &counted{}
	j := &locked{catalogued: catalogued{db}}
	policy := turn.Policy{Allow: []string{"*"}, Taint: turn.TaintOn}
	o := Options{Journal: j, Tools: host, Settings: Settings{Servers: []string{"x"}, Policy: policy,
		Models: oneModel}}
	in := begunWith(t, o, db)
	a, err := New(o)
	require.NoError(t, err)
	j.failures = 2
	_, err = a.CallTool(t.Context(), in)
	require.NoError(t, err)
	assert.Len(t, host.calls, 1)
}

func openJournal(t *testing.T) *journal.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

// begunWith begins a turn whose model requests one call, and returns that call.
func begunWith(t *testing.T, o Options, j *journal.DB) workflows.CallInput {
	t.Helper()
	a, err := New(o)
	require.NoError(t, err)
	in := workflows.CallInput{Session: "begun", Turn: "begun", Step: 1, Attempt: 1,
		Call: turn.ToolCall{ID: "1.0", Tool: "mcp/x/y"}, Tool: turn.Tool{ID: "mcp/x/y"},
		Timeout: time.Second, ServerWait: time.Second, Budget: time.Minute}
	res, err := a.Begin(t.Context(), workflows.BeginInput{BeginInput: turn.BeginInput{
		Session: in.Session, Turn: in.Turn, WorkflowID: "w", RunID: "r", Message: workflows.Message{ID: "m", Text: "x"},
	}})
	require.NoError(t, err)
	key := journal.StepKey{Turn: in.Turn, Step: 1}
	_, err = j.StartInference(t.Context(), journal.StartInference{Session: in.Session, Key: key, Expect: res.Head})
	require.NoError(t, err)
	_, err = j.SettleInference(t.Context(),
		journal.SettleInference{Session: in.Session, Key: key, Attempt: 1, Message: turn.Message{
			ToolCalls: []turn.ToolCall{{ID: "1.0", Tool: "mcp/x/y", Arguments: "{}"}},
		}})
	require.NoError(t, err)
	return in
}

func approve(t *testing.T, j *journal.DB, in workflows.CallInput) {
	t.Helper()
	hash := journal.HashOf([]byte("{}"))
	request := turn.Request{ID: "1.0", Kind: turn.RequestApproval, Step: 1, Tool: "mcp/x/y", Arguments: "{}",
		ArgumentsHash: hash}
	_, err := j.Ask(t.Context(), in.Session, in.Turn, []turn.Request{request}, time.Now())
	require.NoError(t, err)
	decision := turn.Decision{ID: "1.0", Status: turn.StatusAllowed, Allowed: true, ArgumentsHash: hash, By: "ann",
		At: time.Now()}
	require.NoError(t, j.Decide(t.Context(),
		in.Session, in.Turn, []turn.Decision{decision}, time.Now()))
}

func oneModel(string, string) ([]turn.Model, error) {
	return []turn.Model{{Name: "m", Mode: turn.ModeNative}}, nil
}
