package tests

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowGo is a compiler that has compiled one package and then waits for the test. It builds a program that prints its
// name and arguments.
const slowGo = `#!/bin/sh
echo one/package >&2
read line <%[1]s/resume
mkdir -p %[1]s/bin
printf '#!/bin/sh\necho "$@"\nexit 7\n' >%[1]s/bin/everturn
chmod +x %[1]s/bin/everturn
`

// TestTheFirstRunIsNotSilent runs the script of the README's first command on a machine that compiles slowly.
func TestTheFirstRunIsNotSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script, err := os.ReadFile("../everturn")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "everturn"), script, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), fmt.Appendf(nil, slowGo, dir), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "resume"), 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "everturn"), "run", "hello there")
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	line, err := bufio.NewReader(stderr).ReadString('\n') // before the compiler is done
	require.NoError(t, err)
	assert.Contains(t, line, "1 packages")
	resume, err := os.OpenFile(filepath.Join(dir, "resume"), os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, resume.Close())
	out, err := io.ReadAll(stdout)
	require.NoError(t, err)
	assert.Equal(t, "run hello there\n", string(out))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, 7, exit.ExitCode(), "the exit code is the program's own")
}
