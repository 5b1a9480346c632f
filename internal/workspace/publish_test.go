package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// remoteOf makes a bare repository beside dir, with the branch main of dir.
func remoteOf(t *testing.T, dir string) string {
	t.Helper()
	remote := filepath.Join(t.TempDir(), "remote.git")
	userGit(t, dir, "clone", "-q", "--bare", dir, remote)
	return remote
}

func TestPublish(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n", "b": "1\n"})
	s, remote := opened(t, dir), remoteOf(t, dir)
	in := PublishInput{Action: call("s/1", 9), Title: "-t Change it",
		Publishing: Publishing{Remote: remote, Branch: "work/{session}", PullRequest: []string{"sh", "-c",
			`printf '%s|' "$@"; pwd`, "pr", "{branch}", "{commit}", "{title}"}, Environ: []string{"PATH=" + os.Getenv("PATH")}}}
	_, err := s.Publish(t.Context(), in)
	require.ErrorIs(t, err, ErrNoCanvas)
	write(t, s, call("s/1", 1), "a", "2\n")
	head := write(t, s, call("s/1", 2), "b", "2\n")
	before := users(t, dir)
	in.Commit, in.Files = head, []string{"a"}
	_, err = s.Publish(t.Context(), in)
	require.ErrorAs(t, err, new(*MovedError), "an approval names all files")
	in.Files = []string{"a", "b"}
	done, err := s.Publish(t.Context(), in)
	require.NoError(t, err)
	branch := "work/s=2F1"
	assert.Equal(t, Published{Commit: head, Branch: branch, Files: in.Files, Pushed: true,
		Answer: branch + "|" + head + "|t Change it|" + dir}, done)
	assert.Equal(t, head, userGit(t, remote, "rev-parse", branch))
	assert.Equal(t, before, users(t, dir))
	assert.NoFileExists(t, filepath.Join(dir, "HOOKED"))
	done, err = s.Publish(t.Context(), in)
	require.NoError(t, err)
	assert.True(t, done.Earlier)

	in.Squash = true // it replaces what was pushed before
	done, err = s.Publish(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, "1", userGit(t, remote, "rev-list", "--count", "main.."+branch))
	assert.Equal(t, "2", userGit(t, remote, "show", branch+":b"))
	again, err := s.Publish(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, done.Commit, again.Commit)
	assert.True(t, again.Earlier)

	in.Squash, in.PullRequest = false, []string{"sh", "-c", "echo denied; exit 4"}
	done, err = s.Publish(t.Context(), in)
	require.ErrorContains(t, err, "denied")
	assert.True(t, done.Pushed)
}

// TestPublishReplacesNothingOfOthers has branches of others in the remote repository, and addresses that git must not
// use.
func TestPublishReplacesNothingOfOthers(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n"})
	s, remote := opened(t, dir), remoteOf(t, dir)
	base := userGit(t, dir, "rev-parse", "main")
	userGit(t, remote, "branch", "x-s", "main") // an ancestor of the canvas is a branch of others, too
	write(t, s, call("s", 1), "a", "2\n")
	in := PublishInput{Action: Action{Session: "s"}, Publishing: Publishing{Remote: remote, Branch: "x-{session}"}}
	_, err := s.Publish(t.Context(), in)
	require.ErrorContains(t, err, "does not replace")
	assert.Equal(t, base, userGit(t, remote, "rev-parse", "x-s"))
	for _, branch := range []string{"a..b/{session}", "-{session} x", "{session}.lock"} {
		in.Branch = branch
		_, err := s.Publish(t.Context(), in)
		require.ErrorContains(t, err, "no name of a branch", branch)
	}
	in.Branch = "ok/{session}"
	for _, address := range []string{"ext::touch x", "remote.git", "http://example.org/x", "-oProxyCommand=x", "git://x/y",
		"ssh://-oProxyCommand=x/y"} {
		in.Remote = address
		_, err := s.Publish(t.Context(), in)
		require.ErrorContains(t, err, "address", address)
	}
	in.Remote = "https://git:secret-token@localhost:1/x.git"
	_, err = s.Publish(t.Context(), in)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret-token")
}

// TestAPushWhoseEndWasLost has pushed commits, squashed or not, of which the store has only the reference from before the
// push, or the remote has not got them.
func TestAPushWhoseEndWasLost(t *testing.T) {
	dir := repository(t, map[string]string{"a": "1\n"})
	s, remote := opened(t, dir), remoteOf(t, dir)
	write(t, s, call("s", 1), "a", "2\n")
	in := PublishInput{Action: Action{Session: "s"}, Title: "x", Squash: true,
		Publishing: Publishing{Remote: remote, Branch: "x-{session}"}}
	lost, err := s.Publish(t.Context(), in)
	require.NoError(t, err)
	assert.Contains(t, inStore(t, s, "for-each-ref", "--format=%(objectname)", "refs/everturn/published/s"), lost.Commit)
	write(t, s, call("s", 2), "a", "3\n")
	done, err := s.Publish(t.Context(), in)
	require.NoError(t, err)
	assert.Equal(t, done.Commit, userGit(t, remote, "rev-parse", "x-s"))
	userGit(t, remote, "update-ref", "-d", "refs/heads/x-s")
	done, err = s.Publish(t.Context(), in)
	require.NoError(t, err)
	assert.False(t, done.Earlier)
	assert.True(t, strings.HasPrefix(userGit(t, remote, "rev-parse", "x-s"), done.Commit))
}
