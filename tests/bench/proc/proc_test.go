package proc_test

import (
	"crypto/sha256"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/tests/bench/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUsageOfThisProcessGrows(t *testing.T) {
	before, err := proc.CPU(os.Getpid())
	require.NoError(t, err)
	work := make([]byte, 1<<20)
	require.Eventually(t, func() bool {
		work[0] = sha256.Sum256(work)[0] // makes the CPU time measurable
		after, err := proc.CPU(os.Getpid())
		return err == nil && after > before
	}, 10*time.Second, time.Millisecond)
	peak, err := proc.PeakBytes(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, peak, int64(1<<20))
}

func TestAProcessIsStartedReadAndStopped(t *testing.T) {
	mine := t.TempDir() // other runs of this test may be active
	p, err := proc.Start(proc.Command{Name: "sh", Dir: mine, Argv: []string{"/bin/sh", "-c",
		`trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done`, mine}})
	require.NoError(t, err)
	line, err := p.FirstLine(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "ready", line)
	pid, err := proc.Find(func(argv []string) bool {
		return len(argv) == 4 && argv[3] == mine
	})
	require.NoError(t, err)
	assert.Equal(t, p.PID(), pid)
	require.NoError(t, p.Stop())
	assert.ErrorContains(t, p.Stop(), "had ended")
}

func TestAProcessThatDiesSaysWhy(t *testing.T) {
	p, err := proc.Start(proc.Command{Name: "sh", Dir: t.TempDir(),
		Argv: []string{"/bin/sh", "-c", "echo no licence >&2; exit 3"}})
	require.NoError(t, err)
	<-p.Ended()
	_, err = p.FirstLine(t.Context())
	assert.ErrorContains(t, err, "no licence")
	assert.ErrorContains(t, p.Stop(), "no licence")
}
