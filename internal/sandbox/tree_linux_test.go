package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestATreeThatBorrowsObjects commits in a repository of the command's own whose objects are elsewhere.
func TestATreeThatBorrowsObjects(t *testing.T) {
	if found(os.Environ(), "git") == "" {
		t.Skip("there is no git")
	}
	for _, level := range []Level{LevelNamespace, LevelLandlock} {
		t.Run(string(level), func(t *testing.T) {
			s, p, lender := open(t, level, NetworkLoopback), tree(t, nil), realPath(t.TempDir())
			git := func(dir string, args ...string) string {
				cmd := exec.CommandContext(t.Context(), "git", args...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a",
					"GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a")
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, string(out))
				return string(out)
			}
			git(lender, "init", "-q", "-b", "main")
			require.NoError(t, os.WriteFile(filepath.Join(lender, "f"), []byte("first\n"), 0o600))
			git(lender, "add", "f")
			git(lender, "commit", "-q", "-m", "first")
			commit := git(lender, "rev-parse", "HEAD")[:40]
			git(p.Root, "init", "-q", "-b", "work", "--template=")
			objects := filepath.Join(lender, ".git/objects")
			p.Binds = []Bind{{Source: objects, Target: "/git/store"}}
			alternate := "/git/store"
			if level == LevelLandlock {
				p.Binds, alternate = []Bind{{Source: objects}}, objects
			}
			require.NoError(t, os.MkdirAll(filepath.Join(p.Root, ".git/objects/info"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(p.Root, ".git/objects/info/alternates"), []byte(alternate+"\n"),
				0o600))
			exit, out := run(t, s, p, "git update-ref refs/heads/work "+commit+" && git read-tree -m -u HEAD && "+
				"cat f && echo second >> f && "+
				"git commit -qam second && git status --short && git log --format=%s")
			assert.Zero(t, exit.Code, out)
			assert.Equal(t, "first\nsecond\nfirst\n", out)
			exit, _ = run(t, s, p, "echo x > "+alternate+"/x || rm -rf "+alternate+"/*")
			assert.NotZero(t, exit.Code)
			git(lender, "fsck", "--strict")
		})
	}
}
