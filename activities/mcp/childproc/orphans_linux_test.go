package childproc

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// helperEnv makes this test binary a program with a child, which waits until it is killed.
const helperEnv = "CHILDPROC_TEST_HELPER"

// stubborn is a process that does not end by itself and ignores SIGTERM and SIGHUP.
const stubborn = `trap "" TERM HUP; while :; do sleep 0.1; done`

func TestHelperOfOrphans(t *testing.T) {
	if os.Getenv(helperEnv) == "" {
		return // runs only as a child of the next test
	}
	p, err := NewSpawner().Start(Command{Path: "/bin/sh",
		Args: []string{"-c", `sh -c '` + stubborn + `' & echo "[$$,$!]"; cat`}, MaxFrameBytes: 1000})
	require.NoError(t, err)
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	require.NoError(t, err)
	fmt.Print(line)
	select {}
}

func TestWhatAKilledProgramLeavesIsReaped(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperOfOrphans$")
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, grandchild, _ := strings.Cut(strings.Trim(strings.TrimSpace(line), "[]"), ",")
	leader, err := strconv.Atoi(child)
	require.NoError(t, err)
	orphan, err := strconv.Atoi(grandchild)
	require.NoError(t, err)

	ReapOrphans()
	assert.True(t, running(leader) && running(orphan), "what belongs to a living program was killed")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return !running(leader) }, 10*time.Second, 5*time.Millisecond)
	require.True(t, running(orphan), "the kernel killed the grandchild too: this test shows nothing")
	ReapOrphans() // or a worker that starts beside this test
	require.Eventually(t, func() bool { return !running(orphan) }, 10*time.Second, 5*time.Millisecond,
		"the orphan is left")
}

// TestOnlyOrphansAreReaped checks that only processes of a program that has ended are killed, and only if the leader of
// their session has ended, too. A mark identifies its program by process ID and start time, because process IDs are
// reused.
func TestOnlyOrphansAreReaped(t *testing.T) {
	self, err := readStat(os.Getpid())
	require.NoError(t, err)
	ours, gone := fmt.Sprintf("%d.%d", os.Getpid(), self.started), fmt.Sprintf("%d.%d", os.Getpid(), self.started-1)
	for name, c := range map[string]struct {
		mark   string
		leader bool // the leader of the process's session runs
		killed bool
	}{
		"of this program":                   {ours, false, false},
		"of one that had our number once":   {gone, false, true},
		"gone, but in a session of its own": {gone, true, false},
		"no mark that we would write":       {"yes", false, false},
		"negative":                          {"-1.1", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			script := "sleep 1000 >/dev/null 2>&1 & echo $!"
			if c.leader {
				script = "echo $$; exec sleep 1000 >/dev/null 2>&1"
			}
			cmd := exec.Command("/bin/sh", "-c", script)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), markVariable + "=" + c.mark}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var pid int
			_, err = fmt.Fscan(out, &pid)
			require.NoError(t, err)
			defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
			if c.leader {
				defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			} else {
				require.NoError(t, cmd.Wait())
			}
			ReapOrphans()
			if !c.killed {
				assert.True(t, running(pid))
				return
			}
			require.Eventually(t, func() bool { return !running(pid) }, 10*time.Second, 5*time.Millisecond)
		})
	}
}

func TestTheMarkIsOurOwn(t *testing.T) {
	env := withMark([]string{"A=1", markVariable + "=1.2.3", "B=2"})
	assert.Equal(t, []string{"A=1", "B=2", markVariable + "=" + ownMark()}, env)
}

func running(pid int) bool {
	s, err := readStat(pid)
	return err == nil && s.state != "Z"
}

// TestAProcessHasNoTerminal checks that a child is in a session of its own: in that of this program it could write to
// the user's terminal, and type there.
func TestAProcessHasNoTerminal(t *testing.T) {
	p := sh(t, spawner(t), `echo "{\"session\":\"$(cut -d' ' -f6 /proc/self/stat)\",\"leader\":\"$$\"}"`)
	out, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	var got struct{ Session, Leader string }
	require.NoError(t, json.Unmarshal(out, &got))
	assert.Equal(t, got.Leader, got.Session)
}
