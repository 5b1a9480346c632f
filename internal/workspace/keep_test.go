package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const month = 30 * 24 * time.Hour

// refs returns the names of all references of a session in the store.
func refs(t *testing.T, s *Store, session string) string {
	t.Helper()
	return inStore(t, s, "for-each-ref", "--format=%(refname)", headRef("", session), baseRef("", session),
		"refs/everturn/left/"+session, "refs/everturn/aside/"+session)
}

// TestUnusedTreesGo has canvases in all states, and looks which of them are left after a time.
func TestUnusedTreesGo(t *testing.T) {
	dir := repository(t, map[string]string{".gitignore": "ignored\n", ".gitattributes": "*.key filter=crypt\n"})
	s := opened(t, dir)
	write(t, s, call("unmerged", 1), "a", "1\n")
	require.NoError(t, put(s.Path("", "unmerged"), "b", "outside of calls\n"))
	write(t, s, call("merged", 1), "c", "1\n")
	_, err := s.Merge(t.Context(), MergeInput{Action: Action{Session: "merged"}, Into: "main", ByUser: true, Squash: true,
		Title: "c"})
	require.NoError(t, err)
	for n := range 2 {
		write(t, s, call("undone", n), "d", string(rune('1'+n)))
	}
	for range 2 {
		_, err = s.Undo(t.Context(), "", "undone")
		require.NoError(t, err)
	}
	write(t, s, call("dropped", 1), "e", "1\n")
	shown, n, err := s.Unmerged(t.Context(), "", "dropped")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	_, err = s.Drop(t.Context(), "", "dropped")
	require.NoError(t, err)
	assert.NoDirExists(t, shown.Tree)
	write(t, s, call("filtered", 1), "f", "1\n")
	require.NoError(t, put(s.Path("", "filtered"), "a.key", "x"))
	_, _, err = s.Read(t.Context(), call("read", 1), nil)
	require.NoError(t, err)
	readOnly := filepath.Join(s.Path("", "read"), "ignored")
	require.NoError(t, os.MkdirAll(filepath.Join(readOnly, "x"), 0o755))
	require.NoError(t, os.Chmod(readOnly, 0o555))

	now := time.Now()
	swept, err := s.Sweep(t.Context(), month, now.Add(time.Hour))
	require.NoError(t, err)
	assert.Zero(t, swept)
	swept, err = s.Sweep(t.Context(), month, now.Add(25*time.Hour))
	require.NoError(t, err)
	assert.Equal(t, Swept{Trees: 3}, swept, "merged, undone and read have nothing that is nowhere else")
	assert.NoDirExists(t, readOnly)
	assert.DirExists(t, s.Path("", "unmerged"))
	swept, err = s.Sweep(t.Context(), month, now.Add(month+time.Hour))
	require.NoError(t, err)
	assert.Equal(t, Swept{Trees: 1, Canvases: 3}, swept, "merged, read and dropped")
	assert.Empty(t, refs(t, s, "merged")+refs(t, s, "read")+refs(t, s, "dropped"))
	assert.NoDirExists(t, s.Path("", "unmerged"))
	assert.DirExists(t, s.Path("", "filtered"), "no commit has the file with a filter")
	assert.Contains(t, refs(t, s, "undone"), "refs/everturn/aside/undone/")
	assert.Empty(t, userGit(t, dir, "for-each-ref", heldRef("", "merged"), heldRef("", "read")))

	list, err := s.List(t.Context(), "", month)
	require.NoError(t, err)
	unmerged := map[string]int{}
	for _, c := range list {
		unmerged[c.Session] = c.Unmerged
		assert.Zero(t, c.GoesAt, c.Session)
	}
	assert.Equal(t, map[string]int{"unmerged": 2, "undone": 0, "filtered": 1}, unmerged)
	assert.Empty(t, command(t, s, call("unmerged", 2), "test -e a && test -e b").Commit, "the tree is made again")
	userGit(t, dir, "fsck", "--strict")
}

// TestATreeThatIsUsedStays uses trees after their time, and while they are swept.
func TestATreeThatIsUsedStays(t *testing.T) {
	s := opened(t, repository(t, nil))
	write(t, s, call("s", 1), "a", "1\n")
	old := time.Now().Add(-2 * month)
	require.NoError(t, os.Chtimes(s.lockFile(dirName("", "s")), old, old))
	write(t, s, call("busy", 1), "a", "1\n")
	_, err := s.Change(t.Context(), call("busy", 2), nil, Change{Run: func(string) ([]string, error) {
		at := s.lockFile(dirName("", "busy"))
		require.NoError(t, os.Chtimes(at, old, old))
		swept, err := s.Sweep(t.Context(), month, time.Now())
		require.NoError(t, err)
		assert.Equal(t, Swept{Trees: 1}, swept)
		return nil, nil
	}})
	require.NoError(t, err)
	assert.DirExists(t, s.Path("", "busy"))
	_, _, err = s.Read(t.Context(), call("s", 2), nil)
	require.NoError(t, err)
	swept, err := s.Sweep(t.Context(), month, time.Now())
	require.NoError(t, err)
	assert.Equal(t, Swept{Trees: 1}, swept, "only that which was busy before")
}
