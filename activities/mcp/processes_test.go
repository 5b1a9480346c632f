package mcp_test

import (
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
)

// lines is a log whose lines a test can wait for.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func TestProcessesThatStartAndEndAreSeen(t *testing.T) {
	log := make(lines, 100)
	h := newHost(t, mcp.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, stdioServer("srv"))
	assert.Equal(t, "x", call(t, h, "mcp/srv/echo", `{"text":"x"}`).Text)
	running := children(t)
	require.Len(t, running, 1)
	event := func(ended string) *mcp.ProcessEvent {
		for _, e := range health(t, h).Processes {
			if e.PID == running[0] && e.Ended == ended {
				return &e
			}
		}
		return nil
	}
	require.NotNil(t, event(""))
	assert.WithinDuration(t, time.Now(), event("").At, time.Minute)

	require.NoError(t, syscall.Kill(running[0], syscall.SIGKILL))
	for !strings.Contains(receive(t, log), `level=WARN msg="an MCP server's process ended"`) {
	}
	require.Eventually(t, func() bool { return event("signal: killed") != nil }, 10*time.Second, time.Millisecond)
}
