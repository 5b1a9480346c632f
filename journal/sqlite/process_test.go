package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

const hammerPath = "EVERTURN_TEST_HAMMER"

// TestHammer is the child process of the test below: it opens the journal, begins a turn, and appends events until it
// is killed, writing each acknowledged index to stdout.
func TestHammer(t *testing.T) {
	path := os.Getenv(hammerPath)
	if path == "" {
		return // runs only as a child process
	}
	db := open(t, path, sqlite.Options{})
	name := fmt.Sprintf("t%d", os.Getpid())
	begun, err := db.Begin(t.Context(), beginOf("s-"+name, name))
	require.NoError(t, err)
	key := journal.StepKey{Turn: name, Step: 1}
	_, err = db.StartInference(t.Context(), journal.StartInference{Session: "s-" + name, Key: key, Expect: begun.Head})
	require.NoError(t, err)
	for i := 1; ; i++ {
		require.NoError(t, db.AppendEvents(t.Context(), key, 1,
			[]turn.Event{{Kind: turn.EventTextDelta, Text: strings.Repeat("x", 100)}}))
		fmt.Println("ack", name, i)
	}
}

type hammer struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	turn  string
	acked int
}

func startHammer(ctx context.Context, t *testing.T, path string) *hammer {
	t.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHammer$")
	cmd.Env = append(os.Environ(), hammerPath+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &hammer{cmd: cmd, lines: bufio.NewScanner(out)}
}

// until reads n more acknowledgements.
func (h *hammer) until(t *testing.T, n int) {
	t.Helper()
	for range n {
		require.True(t, h.lines.Scan(), "the process ended by itself after %d acknowledgements", h.acked)
		_, err := fmt.Sscanf(h.lines.Text(), "ack %s %d", &h.turn, &h.acked)
		require.NoError(t, err, "%s", h.lines.Text())
	}
}

// kill sends SIGKILL and reads the acknowledgements that the process wrote before it ended.
func (h *hammer) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, h.cmd.Process.Kill())
	for h.lines.Scan() {
		if _, err := fmt.Sscanf(h.lines.Text(), "ack %s %d", &h.turn, &h.acked); err != nil {
			break // an incomplete line
		}
	}
	_ = h.cmd.Wait()
}

// TestProcessesShareAFileAndDieInIt starts four processes that create the same journal at the same moment and write to
// it. One is killed in the middle of its appends; the others, and a follower in this process, continue. No acknowledged
// append is lost.
func TestProcessesShareAFileAndDieInIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "journal.db")
	var hammers []*hammer
	for range 4 {
		hammers = append(hammers, startHammer(t.Context(), t, path))
	}
	for _, h := range hammers {
		h.until(t, 20)
	}
	db := open(t, path, sqlite.Options{})
	hammers[0].kill(t)
	for _, h := range hammers[1:] {
		h.until(t, 20)
	}
	seen := int64(0)
	for e, err := range follow.Turn(t.Context(), db, hammers[1].turn, int64(hammers[1].acked)) {
		require.NoError(t, err)
		if seen++; seen == 50 {
			break
		}
		hammers[1].until(t, 1)
		assert.Equal(t, hammers[1].turn, e.Turn)
	}
	for _, h := range hammers[1:] {
		h.kill(t)
	}
	for _, h := range hammers {
		list, err := db.Events(t.Context(), h.turn, -1, 1_000_000)
		require.NoError(t, err)
		const first = 4 // turn_started and three phases
		assert.GreaterOrEqual(t, len(list), first+h.acked)
		assert.LessOrEqual(t, len(list), first+h.acked+1, "at most the append in flight was not acknowledged")
		for i, e := range list {
			require.Equal(t, int64(i), e.Index)
		}
	}
	_, err := db.Begin(t.Context(), beginOf("s-"+hammers[0].turn, "next"))
	require.NoError(t, err, "the dead process left no lock")
}
