package tests

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// TestAFrozenWorkerReadsTheAnswerThatWaits freezes a worker for longer than the call's timeout. The tool answers
// meanwhile, so the answer is in the pipe when the worker wakes up, together with the end of the timeout.
func TestAFrozenWorkerReadsTheAnswerThatWaits(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	l := newEffectServer(t)
	e := newEnv(t, appendOnce("after"), l.host(config.MCPTool{}), func(c *config.Config) { c.Runtime.ToolTimeout = timeout })
	worker := e.process()
	run := e.begin(t.Name(), "Append it.", nil)
	l.await("effect", "x")
	worker.signal(syscall.SIGSTOP)
	l.open()
	l.await("done", "x")
	time.Sleep(timeout + 2*time.Second) // the timeout must be over, which no event tells while the worker is frozen
	worker.signal(syscall.SIGCONT)
	assert.Equal(t, "Appended.", e.result(run).Answer)
	assert.Equal(t, 1, l.count("effect", "x"))
	assert.Equal(t, turn.OutcomeOK, e.calls(run.GetRunID(), 1)[0].Outcome)
}
