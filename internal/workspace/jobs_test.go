package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatAJobChangesIsItsOwn changes the tree behind the back of calls, as a job does, and dies once.
func TestWhatAJobChangesIsItsOwn(t *testing.T) {
	dir, home := repository(t, map[string]string{"a": "0\n"}), filepath.Join(t.TempDir(), ".everturn")
	s := openedIn(t, dir, home)
	job, second := call("s", 1), call("s", 3)
	start := func(a Action) {
		_, err := s.Change(t.Context(), a, nil, Change{Title: "run server", Job: time.Hour,
			Run: func(string) ([]string, error) { return nil, nil }})
		require.NoError(t, err)
	}
	changes := func(name string) { require.NoError(t, put(s.Path("", "s"), name, "x\n")) }
	start(job)
	changes("log-1")
	command(t, s, call("s", 2), "echo command > command")
	changes("log-2")
	start(second)
	changes("log-3")
	s = openedIn(t, dir, home) // the worker has died
	command(t, s, call("s", 4), "echo again >> command")
	changes("log-4")
	res, err := s.JobEnded(t.Context(), second)
	require.NoError(t, err)
	assert.NotEmpty(t, res.Commit)
	changes("log-5")
	_, err = s.JobEnded(t.Context(), job)
	require.NoError(t, err)
	_, err = s.JobEnded(t.Context(), job)
	require.NoError(t, err, "it has ended before")
	changes("user")
	command(t, s, call("s", 5), "true")
	shown, err := s.Show(t.Context(), "", "s")
	require.NoError(t, err)
	var got []string
	for _, c := range shown.Commits {
		got = append(got, c.Call+" "+inStore(t, s, "diff-tree", "-r", "--name-only", "--no-commit-id", c.ID))
	}
	assert.Equal(t, []string{"turn/5.0 user", "turn/1.0+3 log-5", "turn/3.0+2 log-4", "turn/4.0 command",
		"turn/3.0+1 log-3", "turn/1.0+2 log-2", "turn/2.0 command", "turn/1.0+1 log-1"}, got)

	for n, want := range [][]string{{"a"}, {"a", "log-1"}, {"a", "command", "log-1", "log-2"},
		{"a", "command", "log-1", "log-2", "log-3"}, {"a", "command", "log-1", "log-2", "log-3", "log-4", "log-5"}} {
		fork := "fork-" + string(rune('0'+n))
		_, _, err := s.Read(t.Context(), call(fork, 1), forked("s", n))
		require.NoError(t, err)
		for name := range files(t, s, fork) {
			assert.Contains(t, want, name, fork)
		}
		assert.Len(t, files(t, s, fork), len(want), fork)
	}
}

// TestAJobOfADroppedCanvas ends a job whose tree is gone.
func TestAJobOfADroppedCanvas(t *testing.T) {
	s := opened(t, repository(t, map[string]string{"a": "0\n"}))
	_, err := s.Change(t.Context(), call("s", 1), nil, Change{Title: "run server", Job: time.Hour,
		Run: func(string) ([]string, error) { return nil, nil }})
	require.NoError(t, err)
	_, err = s.Drop(t.Context(), "", "s")
	require.NoError(t, err)
	_, err = s.JobEnded(t.Context(), call("s", 1))
	require.NoError(t, err)
	assert.NoDirExists(t, s.Path("", "s"))
	_, err = os.Stat(s.jobsFile(dirName("", "s")))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
