package tests

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
)

// ended is an entry of a row's Processes.
type ended struct{ Ended string }

// status is a row of tools status --json.
type status struct {
	Processes                      []ended
	Server, State, Worker, Problem string
	Tools, Connections             int
	Calls, Failures, Drops         int64
	Excess                         struct {
		Bound        string
		Limit, Burst int64
	}
}

func TestCLIToolsStatusTellsWhyAServerWasDropped(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n"+hosting(t, "good", "")+hosting(t, "loud", "", "-flood", "log"))
	h.worker()
	var rows []status
	require.Eventually(t, func() bool {
		rows = decoded[[]status](h.everturn("tools", "status", "-o", "json").wait())
		return len(rows) == 2 && rows[1].Drops > 0
	}, within, 50*time.Millisecond, "the server floods on")
	assert.Equal(t, "connected", rows[0].State)
	assert.Equal(t, "messages_per_second", rows[1].Excess.Bound)
	assert.Positive(t, rows[1].Excess.Limit)
	assert.Contains(t, h.everturn("tools", "status").wait().err.String(),
		"it exceeded messages_per_second (200, and 5000 at once)")
}

func TestCLIToolsStatusIsWhatTheWorkersSee(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Text("Hello."))
	h := newUserFolder(t, asking(model)+hosting(t, "good", "")+
		hosting(t, "broken", fmt.Sprintf("env = {SECRET = %q}", "canary-of-the-env"), "-mode", "exit"))
	worker := h.worker()
	h.everturn("run", "hello").exits(0)
	var rows []status
	require.Eventually(t, func() bool {
		rows = decoded[[]status](h.everturn("tools", "status", "-o", "json").exits(1))
		return len(rows) == 2 && rows[0].Worker != ""
	}, within, 50*time.Millisecond)
	assert.Equal(t, "connected", rows[0].State)
	assert.Positive(t, rows[0].Tools)
	assert.Equal(t, 1, rows[0].Connections)
	assert.Equal(t, "failing", rows[1].State)
	assert.Contains(t, rows[1].Problem, "no licence found")
	require.NotEmpty(t, rows[0].Processes)
	assert.Contains(t, rows[1].Processes, ended{Ended: "exit status 3"})
	assert.Empty(t, filesWith(t, h.dir, "canary-of-the-env", "agent.toml"))
	doctor := h.everturn("doctor").exits(1)
	assert.Contains(t, doctor.out.String(), "server broken has failed for worker")

	killed := h.worker()
	reporting := func(rows int) {
		t.Helper()
		require.Eventually(t, func() bool {
			return len(decoded[[]status](h.everturn("tools", "status", "-o", "json").exits(1))) == rows
		}, within, 50*time.Millisecond)
	}
	reporting(4)
	killed.signal(syscall.SIGKILL)
	killed.wait()
	reporting(2) // the report of a killed worker expires

	worker.end()
	rows = decoded[[]status](h.everturn("tools", "status", "-o", "json").exits(1))
	require.Len(t, rows, 2)
	assert.Equal(t, "published", rows[0].State)
	assert.Equal(t, "unavailable", rows[1].State)
	rows = decoded[[]status](h.everturn("tools", "status", "--connect", "-o", "json").exits(1))
	assert.Equal(t, "connected", rows[0].State)
}
