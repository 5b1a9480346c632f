package childproc

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func spawner(t *testing.T) *Spawner {
	t.Helper()
	s := NewSpawner()
	t.Cleanup(s.Close)
	return s
}

func sh(t *testing.T, s *Spawner, script string) *Process {
	t.Helper()
	p, err := s.Start(Command{Path: "/bin/sh", Args: []string{"-c", script}, MaxFrameBytes: 1000, StderrBytes: 64})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Stop(20*time.Millisecond)) })
	return p
}

func TestWhatAProcessSaysBeforeItEndsIsRead(t *testing.T) {
	p := sh(t, spawner(t), `echo '{"a":1}'; echo oops >&2; exit 4`)
	out, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	assert.Equal(t, "{\"a\":1}\n", string(out))
	<-p.Done()
	assert.Equal(t, "exit status 4", p.State())
	assert.Equal(t, "oops\n", p.Stderr.String())
	assert.NoError(t, p.Stop(time.Second), "stopping what has ended")
}

func TestAProcessThatWasToldToEndHasNoFate(t *testing.T) {
	told := sh(t, spawner(t), `cat`)
	go func() { _, _ = io.Copy(io.Discard, told.Stdout) }() // it ends with the process
	require.NoError(t, told.Stdin.Close())
	<-told.Done()
	assert.Equal(t, "exit status 0", told.State())
	assert.Empty(t, told.Fate())

	left := sh(t, spawner(t), `echo '{}'; exit 0`)
	_, err := io.ReadAll(left.Stdout)
	require.NoError(t, err)
	require.NoError(t, left.Stdin.Close(), "as the SDK does when it sees the end")
	<-left.Done()
	assert.Equal(t, "exit status 0", left.Fate(), "it has ended by itself")

	failed := sh(t, spawner(t), `cat; exit 3`)
	go func() { _, _ = io.Copy(io.Discard, failed.Stdout) }()
	require.NoError(t, failed.Stdin.Close())
	<-failed.Done()
	assert.Equal(t, "exit status 3", failed.Fate(), "that is not what it was told")
}

func TestNothingIsInherited(t *testing.T) {
	t.Setenv("CANARY", "sings")
	p := sh(t, spawner(t), `echo "{\"canary\":\"$CANARY\"}"`)
	out, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	assert.Equal(t, "{\"canary\":\"\"}\n", string(out))
}

func TestStopEndsAProcessThatWillNot(t *testing.T) {
	for name, script := range map[string]string{
		"ends with stdin": "cat",
		"ignores TERM":    `trap "" TERM; echo '{}'; while :; do sleep 0.1; done`,
		"leaves a child":  `sleep 1000 & echo '{}'; cat`,
	} {
		t.Run(name, func(t *testing.T) {
			p := sh(t, spawner(t), script)
			if name != "ends with stdin" {
				_, err := p.Stdout.Read(make([]byte, 3)) // waits until the script has started
				require.NoError(t, err)
			}
			require.NoError(t, p.Stop(50*time.Millisecond))
			assert.NotEmpty(t, p.State())
			requireNoGroup(t, p.PID())
		})
	}
}

// requireNoGroup fails while the process group has running members. Zombies do not count.
func requireNoGroup(t *testing.T, pgid int) {
	t.Helper()
	require.Eventually(t, func() bool { return errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) || zombies(pgid) },
		10*time.Second, 5*time.Millisecond)
}

func zombies(pgid int) bool {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, d := range dir {
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if f[2] == strconv.Itoa(pgid) && f[0] != "Z" {
			return false
		}
	}
	return true
}

func TestADescendantThatLeftTheGroupHoldsNothingUp(t *testing.T) {
	p := sh(t, spawner(t), `setsid sh -c 'echo "{\"pid\":$$}"; exec sleep 60' & wait`)
	buf := make([]byte, 64)
	n, err := p.Stdout.Read(buf)
	require.NoError(t, err)
	var deserter struct{ PID int }
	require.NoError(t, json.Unmarshal(buf[:n], &deserter))
	t.Cleanup(func() { _ = syscall.Kill(deserter.PID, syscall.SIGKILL) })
	p.Signal(syscall.SIGKILL)
	began := time.Now()
	_, err = io.ReadAll(p.Stdout)
	require.NoError(t, err)
	<-p.Done()
	assert.Less(t, time.Since(began), 20*time.Second)
}

// TestChildrenSurviveTheEndOfThreads checks that children survive the end of threads: the kernel sends the parent-death
// signal when the thread that forked ends, and a goroutine that ends while locked ends its thread.
func TestChildrenSurviveTheEndOfThreads(t *testing.T) {
	s := spawner(t)
	var p *Process
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			runtime.LockOSThread()
			if i == 0 {
				p = sh(t, s, "cat")
			}
		})
	}
	wg.Wait()
	_, err := p.Stdin.Write([]byte("{}\n"))
	require.NoError(t, err)
	_, err = p.Stdout.Read(make([]byte, 3))
	require.NoError(t, err)
	assert.Empty(t, p.State())
}

func TestAClosedSpawnerStartsNothing(t *testing.T) {
	s := NewSpawner()
	s.Close()
	s.Close()
	_, err := s.Start(Command{Path: "/bin/true"})
	assert.ErrorIs(t, err, ErrSpawnerClosed)
	_, err = spawner(t).Start(Command{Path: "/does/not/exist"})
	assert.ErrorContains(t, err, "running /does/not/exist")
}

// frames reads text through Frames.
func frames(t *testing.T, text string, limit int) (string, string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	go func() { _, _ = io.WriteString(w, text); _ = w.Close() }()
	noise := NewTail(1000)
	f := NewFrames(r, limit, noise)
	out, err := io.ReadAll(f)
	_ = f.Close()
	return string(out), noise.String(), err
}

func TestFrames(t *testing.T) {
	long := strings.Repeat("x", 200)
	for name, tc := range map[string]struct {
		in, out, noise string
		err            error
	}{
		"lines":               {in: "{\"a\":1}\n[2]\r\n\n", out: "{\"a\":1}\n[2]\n"},
		"no last newline":     {in: "{}", out: "{}\n"},
		"a banner":            {in: "Welcome!\n{}\n", out: "{}\n", noise: "Welcome!\n"},
		"half an object":      {in: "{}\n{\"a\":\n{}\n", out: "{}\n", err: ErrFrameBroken},
		"an end in mid-line":  {in: "{\"a\":", err: ErrFrameBroken},
		"two objects":         {in: "{} {}\n", err: ErrFrameBroken},
		"too long":            {in: "{}\n{\"" + long + "\":1}\n", out: "{}\n", err: ErrFrameTooLong},
		"too long and no end": {in: "{" + long, err: ErrFrameTooLong},
		"nothing":             {},
	} {
		t.Run(name, func(t *testing.T) {
			out, noise, err := frames(t, tc.in, 100)
			assert.Equal(t, tc.out, out)
			assert.Equal(t, tc.noise, noise)
			assert.ErrorIs(t, err, tc.err)
		})
	}
	_, _, err := frames(t, strings.Repeat("noise\n", maxNoise+1), 100)
	assert.ErrorIs(t, err, ErrNoise)
}

func TestTheTailKeepsTheEnd(t *testing.T) {
	tail := NewTail(8)
	var all string
	for _, s := range []string{"", "abc", "defgh", "i", "0123456789", "xy", "zzzzzzz", "1234567", "8"} {
		_, err := tail.Write([]byte(s))
		require.NoError(t, err)
		all += s
		assert.Equal(t, all[max(0, len(all)-8):], tail.String())
	}
}
