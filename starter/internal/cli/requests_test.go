package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

func wait(kind turn.RequestKind, id, text string) journal.RequestRecord {
	w := journal.RequestRecord{Session: "it's one", Turn: "t", Request: turn.Request{ID: id, Kind: kind, Step: 1}}
	if kind == turn.RequestQuestion {
		w.Question = text
		return w
	}
	w.Tool, w.Arguments, w.ArgumentsHash, w.Risk, w.Why = "local/write", text, journal.HashOf([]byte(text)), turn.RiskHigh,
		"policy\x1b asks"
	return w
}

func TestWhatIsAskedIsShownExactlyWithTheCommandsThatDecide(t *testing.T) {
	approval := wait(turn.RequestApproval, "1.0",
		"{\"p\":\"\x1b[2J\u202e\u200b\",\n\"q\":1}\napproval 9.9 of session s: fine")
	shown := layout{}.withCommands([]journal.RequestRecord{approval, wait(turn.RequestQuestion, "q2", "Which?")})
	assert.Equal(t, strings.ReplaceAll(`approval 1.0 of session it's one: call local/write · risk high
reason: policy asks
arguments (hash abababababab):
  │ {"p":"\x1b[2J\u202e\u200b",
  │ "q":1}
  │ approval 9.9 of session s: fine
decide it with
  starter approve 'it'\''s one' 1.0 --hash abababababab
  starter deny 'it'\''s one' 1.0 --reason "..."
question q2 of session it's one
  │ Which?
answer it with
  starter answer 'it'\''s one' q2 "..."`, "abababababab", ui.ShortHash(approval.ArgumentsHash)), shown)
	long := layout{}.describe(wait(turn.RequestApproval, "1.0", strings.Repeat("x", 1<<20)+" the end"))
	assert.True(t, strings.HasSuffix(long, "x the end"), "all of it is shown")
}

// TestACallWithoutItsArgumentsCannotBeAllowed: the journal has the beginning of them alone, or others.
func TestACallWithoutItsArgumentsCannotBeAllowed(t *testing.T) {
	for name, arguments := range map[string]string{"a beginning": `{"path":"notes`, "others": `{"path":"others.txt"}`,
		"none": ""} {
		w := wait(turn.RequestApproval, "1.0", `{"path":"notes.txt"}`)
		require.NoError(t, checkArguments(w))
		w.Arguments, w.ArgumentsBytes = arguments, 20
		require.Error(t, checkArguments(w), name)
		assert.Contains(t, layout{}.describe(w), "can only be denied", name)
		assert.NotContains(t, commandsFor(w), "starter approve ", name)
		assert.Equal(t, "[n]o (and why): ", decisionPrompt(w), name)
		var unreachable turnClient // nothing is sent
		_, err := unreachable.decide(t.Context(), w, decision{allow: true})
		require.ErrorContains(t, err, "can only be denied", name)
	}
}

func TestWordsForAShell(t *testing.T) {
	for in, want := range map[string]string{
		"s-k2j3": "s-k2j3", "a b": "'a b'", "": "''", "-x": "'-x'", "$(rm)": "'$(rm)'", "it's": `'it'\''s'`,
		"grün": "'grün'",
	} {
		assert.Equal(t, want, quoted(in))
	}
}

func TestDecisionsThatWereNotTakenSayWhatToDo(t *testing.T) {
	w := wait(turn.RequestApproval, "1.0", "{}")
	for name, c := range map[string]struct {
		err  error
		code int
		says string
	}{
		"taken": {nil, exitAnswered, ""},
		"over":  {client.ErrNotRunning, exitConfig, "takes no more decisions; `starter show 'it'\\''s one'`"},
		"no worker": {client.ErrNoWorker, exitUnreachable,
			"start one with `starter dev` or `go run ./worker`; Temporal keeps the decision on 1.0"},
		"not asked": {turn.Errorf(turn.CodeNotWaiting, nil, "no approval is open"), exitConfig,
			"no approval is open; `starter approvals` lists the pending requests"},
		"drift": {turn.Errorf(turn.CodeToolDrift, nil, "other arguments"), exitFailed,
			"other arguments; look at it again with `starter approvals"},
		"expired": {turn.Errorf(turn.CodeApprovalExpired, nil, "it has expired"), exitFailed,
			"it has expired; follow the turn with `starter attach"},
		"another code": {turn.Errorf(turn.CodeStoreUnavailable, errors.New("cause"), "away"), exitFailed,
			"away: store_unavailable"},
		"something else": {errors.New("broken pipe"), exitFailed, "broken pipe"},
	} {
		err := decideError(w, c.err)
		assert.Equal(t, c.code, exitCode(err), name)
		if c.says != "" {
			assert.ErrorContains(t, err, c.says, name)
			assert.ErrorIs(t, err, c.err, name)
		}
	}
}

func TestMessagesThatWereNotTakenSayWhatToDo(t *testing.T) {
	a := client.Turn{Session: "s", MessageID: "m1"}
	for name, c := range map[string]struct {
		err   error
		alone bool
		code  int
		says  string
	}{
		"busy": {errors.Join(client.ErrBusy, turn.Errorf(turn.CodeSessionBusy, nil, "a turn runs")), true, exitFailed,
			"stop it with `starter stop s`"},
		"a full queue": {turn.Errorf(turn.CodeSessionBusy, nil, "100 messages wait"), false, exitFailed, "100 messages wait"},
		"empty": {errors.Join(client.ErrInvalid, turn.Errorf(turn.CodeConfigInvalid, nil, "the message is empty")),
			false, exitConfig, "the message is empty"},
		"no worker": {client.ErrNoWorker, false, exitUnreachable, "--message-id m1"},
	} {
		err := sendError(a, c.alone, c.err)
		assert.Equal(t, c.code, exitCode(err), name)
		assert.ErrorContains(t, err, c.says, name)
	}
}

func TestDecisions(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	for want, r := range map[string]turn.Decision{
		"allowed by ann@home, and every later call of this tool (2026-11-21 12:00:00)": {Status: turn.StatusAllowed,
			Allowed: true, By: "ann@home", Grant: turn.GrantTool},
		"denied by [2Jann: no (2026-11-21 12:00:00)": {Status: turn.StatusDenied,
			By: "\x1b[2Jann", Reason: "no\u009b"},
		"expired, and allowed by the configuration (2026-11-21 12:00:00)": {Status: turn.StatusExpired,
			Allowed: true},
		"answered (2026-11-21 12:00:00)": {Status: turn.StatusAnswered},
	} {
		r.At = at
		assert.Equal(t, want, decidedAt(r))
	}
}

func TestLinksOfTheWebUI(t *testing.T) {
	c := config.Temporal{UIURL: "http://ui/", Namespace: "a b"}
	assert.Equal(t, "http://ui/namespaces/a%20b", webUI(c))
	assert.Equal(t, "http://127.0.0.1:8233/namespaces/d", webUI(config.Temporal{DevUIPort: 8233, Namespace: "d"}))
}

func TestALineThatIsTyped(t *testing.T) {
	f := file(t, "first\nsecond")
	line, err := readLine(f)
	require.NoError(t, err)
	assert.Equal(t, "first", line)
	_, err = readLine(f)
	assert.Error(t, err, "a line without an end was not meant")
	_, err = readLine(file(t, strings.Repeat("x", maxLine+1)))
	assert.ErrorContains(t, err, "too long")
}

func TestCompletionWritesNothing(t *testing.T) {
	c := newConsole(t)
	assert.Equal(t, exitAnswered, c.run(t, "__complete", "attach", ""))
	assert.Equal(t, exitAnswered, c.run(t, "__complete", "approve", "s", ""))
	assert.Equal(t, exitAnswered, c.run(t, "__complete", "run", "--set", "no=such", "-s", ""))
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestManualPages(t *testing.T) {
	c := newConsole(t)
	c.environ = []string{"SOURCE_DATE_EPOCH=0"}
	assert.Equal(t, exitAnswered, c.run(t, "man", "here"))
	b, err := os.ReadFile(filepath.Join("here", "starter-approve.1"))
	require.NoError(t, err)
	assert.Contains(t, string(b), "Jan 1970")
	assert.Contains(t, string(b), "--hash")
	c.run(t, "man", "again")
	again, err := os.ReadFile(filepath.Join("again", "starter-approve.1"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(b, again), "they are the same each time")
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	assert.Equal(t, exitConfig, c.run(t, "man", "file"))
}
