package tests

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/stdio"
)

// slowGo is a compiler that has compiled one package and then waits for the test. For the command line, it builds a
// program that prints its arguments.
const slowGo = `#!/bin/sh
echo one/package >&2
for name; do :; done
echo "${name##*/}" >>%[1]s/begun
read line <%[1]s/resume
[ "$name" = ./starter ] || exit 0
mkdir -p %[1]s/bin
printf '#!/bin/sh\necho "$@"\nexit 7\n' >%[1]s/bin/everturn
chmod +x %[1]s/bin/everturn
`

// firstRun runs the script of the README's first command, with these arguments, on a machine that compiles slowly. The
// `temporal` on its PATH has a server of this version; if server is empty, there is none. Its standard error is given,
// or else discarded. The compilers wait until resume is called.
func firstRun(t *testing.T, stderr io.Writer, server string, args ...string) (cmd *exec.Cmd, stdout *bytes.Buffer,
	dir string) {
	t.Helper()
	dir = t.TempDir()
	script, err := os.ReadFile("../everturn")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "everturn"), script, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), fmt.Appendf(nil, slowGo, dir), 0o700))
	if server != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "temporal"),
			[]byte("#!/bin/sh\necho 'temporal version 1.7.0 (Server "+server+", UI 2.50.0)'\n"), 0o700))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "resume"), 0o600))
	cmd = exec.CommandContext(t.Context(), filepath.Join(dir, "everturn"), args...)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "HOME=" + dir}
	stdout = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	require.NoError(t, cmd.Start())
	return cmd, stdout, dir
}

// begun waits until this many compilers run at the same time, and returns what they compile.
func begun(t *testing.T, dir string, n int) (names []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "begun"))
		names = strings.Fields(string(b))
		return err == nil && len(names) >= n
	}, within, 10*time.Millisecond)
	return names
}

// resume lets the compilers end.
func resume(t *testing.T, dir string, compilers int) {
	t.Helper()
	for range compilers {
		fifo, err := os.OpenFile(filepath.Join(dir, "resume"), os.O_RDWR, 0)
		require.NoError(t, err)
		t.Cleanup(func() { fifo.Close() }) // a compiler that has not opened it yet would miss the line
		_, err = fifo.WriteString("\n")
		require.NoError(t, err)
	}
}

// exitsAsTheProgram waits for the script, which ends with the exit code of the program that it has built.
func exitsAsTheProgram(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, 7, exit.ExitCode())
}

func TestTheFirstRunIsNotSilent(t *testing.T) {
	t.Parallel()
	progress, stderr := stdio.Pseudoterminal(t)
	cmd, stdout, dir := firstRun(t, stderr, "", "run", "hello there")
	shown := make([]byte, 1000)
	n, err := progress.Read(shown) // before the compiler is done
	require.NoError(t, err)
	assert.Contains(t, string(shown[:n]), "1 packages of Everturn")
	assert.NotContains(t, string(shown[:n]), "\n", "the line moves in place")
	resume(t, dir, 1)
	exitsAsTheProgram(t, cmd)
	assert.Equal(t, "run hello there\n", stdout.String())
	assert.Equal(t, []string{"starter"}, begun(t, dir, 1), "without --dev no server is compiled")
}

func TestTheFirstRunCompilesTheServerMeanwhile(t *testing.T) {
	t.Parallel()
	for server, want := range map[string][]string{
		"":       {"starter", "temporalcli"},
		"1.30.9": {"starter", "temporalcli"}, // --dev refuses it
		"1.31.0": {"starter"},
	} {
		t.Run("temporal "+server, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			cmd, stdout, dir := firstRun(t, &stderr, server, "run", "--dev", "hello")
			begun(t, dir, len(want))
			resume(t, dir, len(want))
			exitsAsTheProgram(t, cmd)
			assert.ElementsMatch(t, want, begun(t, dir, len(want)))
			assert.Equal(t, "run --dev hello\n", stdout.String())
			assert.NotContains(t, stderr.String(), "\x1b")
		})
	}
}
