package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// installs is a setup that changes a file and an ignored one.
func installs(dir string, _ bool) (Setup, error) {
	return Setup{Command: "install"}, errors.Join(put(dir, "lock", "1\n"), put(dir, "ignored", "x"))
}

func TestASetupRunsOnceInATree(t *testing.T) {
	s := opened(t, repository(t, map[string]string{".gitignore": "ignored\n"}))
	ran := 0
	setUp := func(session string) (Setup, Result, bool) {
		did, res, done, err := s.SetUp(t.Context(), call(session, 1), nil, func(dir string, users bool) (Setup, error) {
			ran++
			assert.True(t, users)
			return installs(dir, users)
		})
		require.NoError(t, err)
		return did, res, done
	}
	did, res, done := setUp("s")
	assert.True(t, done)
	assert.Equal(t, "install", did.Command)
	assert.Equal(t, []string{"lock"}, res.Files)
	assert.True(t, res.Made.New)
	assert.Equal(t, "setup", inStore(t, s, "log", "-1", "--format=%s", "everturn/s"))
	assert.Equal(t, "x", files(t, s, "s")["ignored"])
	_, _, done = setUp("s")
	assert.False(t, done)
	setUp("other")
	assert.Equal(t, 2, ran)
	require.NoError(t, os.RemoveAll(s.Path("", "s")))
	_, _, done = setUp("s")
	assert.True(t, done, "a tree that is made again needs its setup")
	shown, err := s.Show(t.Context(), "", "s")
	require.NoError(t, err)
	require.NotNil(t, shown.Setup)
	assert.Len(t, shown.Commits, 1)
}

// TestAKilledSetupRunsAgain ends a setup in the middle: by an error, and by the death of its process, which leaves the
// file that names the call.
func TestAKilledSetupRunsAgain(t *testing.T) {
	s := opened(t, repository(t, map[string]string{"a": "1\n"}))
	half := func(dir string, _ bool) (Setup, error) {
		return Setup{}, errors.Join(put(dir, "a", "half\n"), context.Canceled)
	}
	_, _, _, err := s.SetUp(t.Context(), call("s", 1), nil, half)
	require.ErrorIs(t, err, context.Canceled)
	_, err = os.Stat(s.callFile(dirName("", "s")))
	require.NoError(t, err, "as after the death of the process")
	_, res, done, err := s.SetUp(t.Context(), call("s", 2), nil, func(dir string, users bool) (Setup, error) {
		b, err := os.ReadFile(filepath.Join(dir, "a"))
		assert.Equal(t, "1\n", string(b), "it begins anew")
		return Setup{}, err
	})
	require.NoError(t, err)
	assert.True(t, done)
	assert.Empty(t, res.Commit)
	assert.Equal(t, "half", inStore(t, s, "show", asideRefOf(t, s)+":a"))
}

func asideRefOf(t *testing.T, s *Store) string {
	t.Helper()
	return inStore(t, s, "for-each-ref", "--format=%(refname)", "refs/everturn/aside/s")
}

// TestASetupKnowsWhoseFilesItRuns begins trees at what an agent, the user, and the user without a commit has written.
func TestASetupKnowsWhoseFilesItRuns(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n"})
	s := opened(t, dir)
	users := func(session string, origin Begins) (own bool) {
		_, _, done, err := s.SetUp(t.Context(), call(session, 7), origin, func(_ string, users bool) (Setup, error) {
			own = users
			return Setup{}, nil
		})
		require.NoError(t, err)
		require.True(t, done)
		return own
	}
	assert.True(t, users("new", nil))
	write(t, s, call("caller", 1), "package.json", "{}")
	assert.False(t, users("agent", from("caller")), "the agent's caller has changed files")
	assert.False(t, users("caller", nil))
	require.NoError(t, put(dir, "a", "mine\n"))
	_, err := s.TakeUserChanges(t.Context(), Action{Session: "with"})
	require.NoError(t, err)
	assert.True(t, users("with", nil))
	userGit(t, dir, "checkout", "-q", "a")
	_, err = s.Merge(t.Context(), MergeInput{Action: Action{Session: "caller"}, Into: "main", ByUser: true, Title: "merge"})
	require.NoError(t, err)
	assert.True(t, users("after", nil), "the user has merged it")
}
