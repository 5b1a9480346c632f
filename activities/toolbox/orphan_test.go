package toolbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
)

// helperEnv makes this test binary a host that waits to be killed; its value is the server's pidfile.
const helperEnv = "TOOLBOX_TEST_HELPER"

func TestHelperHost(t *testing.T) {
	pidfile := os.Getenv(helperEnv)
	if pidfile == "" {
		return // only means something as a child of the next test
	}
	h, err := toolbox.New(toolbox.Options{Servers: []toolbox.Server{{
		ID: "srv", Command: os.Getenv(helperEnv + "_BINARY"), Args: []string{"-mode", "flood", "-pidfile", pidfile},
	}}}, nil)
	require.NoError(t, err)
	require.Empty(t, h.Catalogues(t.Context())[0].Problem)
	fmt.Println("ready")
	select {}
}

func TestNoServerOutlivesAKilledHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // elsewhere a server ends when it reads the end of its stdin
	}
	pidfile := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperHost$")
	cmd.Env = append(os.Environ(), helperEnv+"="+pidfile, helperEnv+"_BINARY="+binary)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ready := make([]byte, 5)
	_, err = out.Read(ready)
	require.NoError(t, err)
	pid := readPIDs(t, pidfile)[0]
	require.True(t, alive(pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return !alive(pid) }, 10*time.Second, 5*time.Millisecond, "the server outlives its host")
}
