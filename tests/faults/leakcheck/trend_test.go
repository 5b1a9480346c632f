package leakcheck_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/tests/faults/leakcheck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// halfHour returns samples of half an hour, one every five seconds: 80 MB plus a sawtooth of 20 MB, with a cache that
// fills to 30 MB in the first ten minutes and a leak of so many bytes a minute.
func halfHour(leak float64) []leakcheck.Sample {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var out []leakcheck.Sample
	for i := range 360 {
		minutes := float64(i) / 12
		bytes := 80e6 + 20e6*float64(i%7)/7 + 3e6*min(minutes, 10) + leak*minutes
		out = append(out, leakcheck.Sample{At: begin.Add(time.Duration(i) * 5 * time.Second), Resident: int64(bytes),
			Children: 3})
	}
	return out
}

func resident(s leakcheck.Sample) float64 { return float64(s.Resident) }

func TestASawIsNoLeak(t *testing.T) {
	line := leakcheck.Line(leakcheck.Lows(halfHour(0), 10*time.Minute, time.Minute, resident))
	assert.Equal(t, 20, line.Windows)
	assert.InDelta(t, 0, line.Growth(), 1e6)
	assert.InDelta(t, 110e6, line.Mean, 2e6)
}

func TestALeakIsSeenUnderTheSaw(t *testing.T) {
	line := leakcheck.Line(leakcheck.Lows(halfHour(500e3), 10*time.Minute, time.Minute, resident))
	assert.InDelta(t, 500e3, line.PerMin, 50e3)
	assert.InDelta(t, 19*500e3, line.Growth(), 1e6)
}

func TestAProcessIsSampled(t *testing.T) {
	before, err := leakcheck.Of(os.Getpid())
	require.NoError(t, err)
	assert.Positive(t, before.Resident)
	assert.Positive(t, before.Threads)
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	after, err := leakcheck.Of(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, after.Files, before.Files)
	assert.Contains(t, leakcheck.Children(os.Getpid()), child.Process.Pid)
	assert.Equal(t, before.Children+1, after.Children)
}
