package mcp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
)

// helperEnv makes this test binary a host that waits until it is killed. Its value is the path of the server's pidfile.
const helperEnv = "MCP_TEST_HELPER"

func TestHelperHost(t *testing.T) {
	pidfile := os.Getenv(helperEnv)
	if pidfile == "" {
		return // runs only as a child of the next test
	}
	h, err := mcp.New(mcp.Options{Servers: []mcp.Server{{
		ID: "srv", Command: os.Getenv(helperEnv + "_BINARY"),
		Args: []string{"-mode", os.Getenv(helperEnv + "_MODE"), "-pidfile", pidfile},
	}}, Environ: environ})
	require.NoError(t, err)
	require.Empty(t, h.Catalogues(t.Context())[0].Problem)
	fmt.Println("ready")
	select {}
}

// killedHost runs a host with one server, kills it and returns the process IDs of the server and of the processes that
// the server started.
func killedHost(t *testing.T, mode string) []int {
	t.Helper()
	pidfile := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperHost$")
	cmd.Env = append(os.Environ(), helperEnv+"="+pidfile, helperEnv+"_BINARY="+binary, helperEnv+"_MODE="+mode)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ready := make([]byte, 5)
	_, err = out.Read(ready)
	require.NoError(t, err)
	pids := readPIDs(t, pidfile)
	for _, pid := range pids {
		require.True(t, alive(pid))
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	return pids
}

func TestWhatServersOfAKilledHostHaveStartedEndsWhenTheNextHostStarts(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // other systems cannot find them
	}
	pids := killedHost(t, "grandchild")
	require.Len(t, pids, 2)
	require.Eventually(t, func() bool { return !alive(pids[0]) }, 10*time.Second, 5*time.Millisecond,
		"the server outlives its host")
	require.True(t, alive(pids[1]), "it died with its parent: this test shows nothing")
	newHost(t, mcp.Options{}, stdioServer("srv"))
	require.Eventually(t, func() bool { return !alive(pids[1]) }, 10*time.Second, 5*time.Millisecond,
		"the stubborn grandchild is left")
}
