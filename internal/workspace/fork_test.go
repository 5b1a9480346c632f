package workspace

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// forked is the origin of a fork that shares the calls of the session up to the nth.
func forked(session string, n int) Begins {
	return func(context.Context) (o Origin, err error) {
		o.Parents = []string{session}
		for ; n > 0; n-- {
			o.Calls = append(o.Calls, call(session, n).call())
		}
		return o, nil
	}
}

func TestAForkBeginsAtItsMessage(t *testing.T) {
	dir := repository(t, map[string]string{"a": "0\n"})
	userGit(t, dir, "branch", "other")
	s := opened(t, dir)
	for n := 1; n <= 4; n++ {
		write(t, s, call("s", n), "a", fmt.Sprintf("%d\n", n))
	}
	undone, err := s.Undo(t.Context(), "", "s")
	require.NoError(t, err)
	assert.Equal(t, "turn/4.0", undone.Call)
	assert.Equal(t, "3\n", files(t, s, "s")["a"])
	_, err = s.Merge(t.Context(), MergeInput{Action: call("s", 5), Into: "other", Title: "merge", Squash: true})
	require.NoError(t, err)
	write(t, s, call("s", 6), "a", "6\n")
	for n, want := range []string{"0\n", "1\n", "2\n", "3\n", "3\n", "3\n", "6\n"} {
		fork := fmt.Sprintf("fork-%d", n)
		_, _, err := s.Read(t.Context(), call(fork, 1), forked("s", n))
		require.NoError(t, err)
		assert.Equal(t, want, files(t, s, fork)["a"], fork)
		shown, err := s.Show(t.Context(), "", fork)
		require.NoError(t, err)
		assert.Len(t, shown.Commits, []int{0, 1, 2, 3, 3, 0, 1}[n], fork)
	}
	_, _, err = s.Read(t.Context(), call("late", 1), func(context.Context) (Origin, error) {
		return Origin{Parents: []string{"none", "fork-2"}, Calls: []string{call("s", 1).call()}}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, "1\n", files(t, s, "late")["a"], "a fork of a fork")
	for range 2 {
		_, err = s.Undo(t.Context(), "", "fork-2")
		require.NoError(t, err)
	}
	assert.Equal(t, "0\n", files(t, s, "fork-2")["a"])
	_, err = s.Undo(t.Context(), "", "fork-2")
	require.ErrorContains(t, err, "nothing to undo")
}
