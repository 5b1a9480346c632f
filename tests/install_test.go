package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMakeInstall installs everturn into a folder and uses it as a shell does, elsewhere than in the clone.
func TestMakeInstall(t *testing.T) {
	t.Parallel()
	prefix := t.TempDir()
	run := func(dir string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(prefix, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	assert.NotContains(t, run("..", "make", "install", "PREFIX="+prefix), "to PATH")
	version := run(t.TempDir(), "bash", "-c", "everturn --version")
	assert.Contains(t, version, "everturn")
	assert.Equal(t, version, run(t.TempDir(), "bash", "-c", "temporal-agent --version"))
	share := filepath.Join(prefix, "share")
	assert.Contains(t, run(share, "bash", "-c", "source bash-completion/completions/everturn && complete -p everturn"),
		"everturn")
	for _, file := range []string{"man/man1/everturn.1", "man/man1/everturn-run.1", "zsh/site-functions/_everturn",
		"fish/vendor_completions.d/everturn.fish"} {
		b, err := os.ReadFile(filepath.Join(share, file))
		require.NoError(t, err)
		assert.Contains(t, string(b), "everturn", file)
	}
}
