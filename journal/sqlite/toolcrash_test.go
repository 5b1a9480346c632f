package sqlite_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

const toolHammerPath = "EVERTURN_TEST_TOOL_HAMMER"

// TestToolHammer is the child process of the test below: in each turn it suspends and resumes a call, and lets another
// one end late with an image. It prints each acknowledgement.
func TestToolHammer(t *testing.T) {
	path := os.Getenv(toolHammerPath)
	if path == "" {
		return // runs only as a child process
	}
	h := toolHammer{T: t, s: open(t, path, sqlite.Options{Synchronous: "normal"})}
	for i := range 100_000 {
		h.turn = fmt.Sprintf("t%d-%d", os.Getpid(), i)
		h.once()
	}
}

type toolHammer struct {
	*testing.T
	s    *journal.DB
	turn string
}

func (h toolHammer) ack(what string) { fmt.Println("ack", h.turn, what) }

func (h toolHammer) once() {
	ctx := h.Context()
	begun, err := h.s.Begin(ctx, beginOf("s-"+h.turn, h.turn))
	require.NoError(h, err)
	key := journal.StepKey{Turn: h.turn, Step: 1}
	_, err = h.s.StartInference(ctx, journal.StartInference{Session: "s-" + h.turn, Key: key, Expect: begun.Head})
	require.NoError(h, err)
	calls := []turn.ToolCall{{ID: "1.0", Tool: "mcp/mail/ask", Arguments: "{}"},
		{ID: "1.1", Tool: "mcp/mail/send", Arguments: "{}"}}
	inf, err := h.s.SettleInference(ctx, journal.SettleInference{Session: "s-" + h.turn, Key: key, Attempt: 1,
		Message: turn.Message{ToolCalls: calls}})
	require.NoError(h, err)
	h.claim(calls[0], 1)
	require.NoError(h, h.s.SuspendCall(ctx,
		journal.SettleInput{Turn: h.turn, CallID: "1.0", Attempt: 1, Result: turn.ToolResult{Continuation: []byte(h.turn)}}))
	h.ack("suspended")
	h.claim(calls[1], 1)
	h.settle(calls[1], turn.ToolResult{Outcome: turn.OutcomeUnknown})
	picture := turn.Media{Type: "image/png", Data: []byte("picture of " + h.turn)}
	h.settle(calls[1], turn.ToolResult{Outcome: turn.OutcomeOK, Text: "sent after all", Media: []turn.Media{picture}})
	h.ack("late")
	h.claim(calls[0], 2)
	h.settle(calls[0], turn.ToolResult{Outcome: turn.OutcomeOK, Text: "asked"})
	key.Step = 2
	results := []turn.CallOutcome{{CallID: calls[0].ID}, {CallID: calls[1].ID}}
	_, err = h.s.StartInference(ctx, journal.StartInference{Session: "s-" + h.turn, Key: key, Expect: inf.Head,
		Outcomes: results})
	require.NoError(h, err)
	h.ack("told")
}

func (h toolHammer) claim(c turn.ToolCall, attempt int) {
	claim, err := h.s.ClaimCall(h.Context(), journal.ClaimInput{Turn: h.turn, Step: 1, Call: c, Attempt: attempt})
	require.NoError(h, err)
	require.Equal(h, journal.ClaimGranted, claim.State)
}

func (h toolHammer) settle(c turn.ToolCall, r turn.ToolResult) {
	r.FromServer = true
	_, err := h.s.SettleCall(h.Context(), journal.SettleInput{Turn: h.turn, CallID: c.ID, Attempt: 1, Result: r,
		Taints: true, At: time.Unix(2, 0)})
	require.NoError(h, err)
}

// TestKilledWithToolsInFlight checks that a process continues from everything that a killed process had acknowledged of
// its calls: suspended calls with their continuations, taints, images, and notices that are still due, each exactly
// once.
func TestKilledWithToolsInFlight(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	for round := range 6 {
		acked := killAfter(t, path, 10+7*round)
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		require.NoError(t, err)
		for name, last := range acked {
			checkLeft(t, s, name, last)
		}
		require.NoError(t, s.Close())
	}
}

// killAfter runs the child process, kills it after n acknowledgements and returns the last acknowledgement of each
// turn.
func killAfter(t *testing.T, path string, n int) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestToolHammer$")
	cmd.Env = append(os.Environ(), toolHammerPath+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	acked := map[string]string{}
	for lines := bufio.NewScanner(out); lines.Scan(); n-- {
		var name, what string
		if _, err := fmt.Sscanf(lines.Text(), "ack %s %s", &name, &what); err != nil {
			break // an incomplete line, or the end
		}
		acked[name] = what
		if n == 0 {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait()
	require.NotEmpty(t, acked)
	return acked
}

func checkLeft(t *testing.T, s *journal.DB, name, last string) {
	t.Helper()
	if last == "suspended" {
		checkSuspended(t, s, name)
	} else {
		checkSent(t, s, name)
	}
	_, err := s.Finish(t.Context(), turn.FinishInput{Session: "s-" + name, Turn: name,
		Result: turn.Result{State: turn.StateFailed}, At: time.Unix(3, 0)})
	require.NoError(t, err)
	next := name + "-next"
	begun, err := s.Begin(t.Context(), beginOf("s-"+name, next))
	require.NoError(t, err)
	_, err = s.StartInference(t.Context(), journal.StartInference{Session: "s-" + name,
		Key: journal.StepKey{Turn: next, Step: 1}, Expect: begun.Head})
	require.NoError(t, err)
	if told := countNotices(t, s, "s-"+name); last != "suspended" {
		assert.Equal(t, 1, told)
	}
}

func checkSuspended(t *testing.T, s *journal.DB, name string) {
	t.Helper()
	call, err := s.Call(t.Context(), name, "1.0")
	require.NoError(t, err)
	if call.Attempt > 1 { // the call was resumed, and the process was killed before it printed that
		return
	}
	claim, err := s.ClaimCall(t.Context(), journal.ClaimInput{Turn: name, Step: 1, Call: call.Call, Attempt: 2})
	require.NoError(t, err)
	assert.Equal(t, journal.ClaimGranted, claim.State)
	assert.Equal(t, name, string(claim.Record.Continuation))
}

// checkSent checks the effects of a late result.
func checkSent(t *testing.T, s *journal.DB, name string) {
	t.Helper()
	mark, err := s.Taint(t.Context(), name)
	require.NoError(t, err)
	assert.NotNil(t, mark)
	picture := "picture of " + name
	_, b, err := s.Artifact(t.Context(), name, journal.HashOf([]byte(picture)))
	require.NoError(t, err)
	assert.Equal(t, picture, string(b))
}

// countNotices counts the late results in a session's transcript, and checks the chain.
func countNotices(t *testing.T, s *journal.DB, session string) (told int) {
	t.Helper()
	messages, err := s.Messages(t.Context(), session, 1, 100)
	require.NoError(t, err)
	var head turn.Head
	for _, m := range messages {
		head = journal.Next(head, m)
		if strings.HasPrefix(m.ID, "late:") {
			told++
		}
	}
	record, err := s.Session(t.Context(), session)
	require.NoError(t, err)
	assert.Equal(t, record.Head, head)
	return told
}
