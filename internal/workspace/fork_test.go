package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
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
		_, err := s.Read(t.Context(), call(fork, 1), forked("s", n))
		require.NoError(t, err)
		assert.Equal(t, want, files(t, s, fork)["a"], fork)
		shown, err := s.Show(t.Context(), "", fork)
		require.NoError(t, err)
		assert.Len(t, shown.Commits, []int{0, 1, 2, 3, 3, 0, 1}[n], fork)
	}
	_, err = s.Read(t.Context(), call("late", 1), func(context.Context) (Origin, error) {
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

// TestTreeAndTranscriptAgree runs random sequences of edits, commands, forks, undos, losses of the tree and crashes,
// and compares each tree with what the calls of its session have done.
func TestTreeAndTranscriptAgree(t *testing.T) {
	sequences := 10
	if testing.Short() {
		sequences = 2
	}
	for seed := range sequences {
		dir, state := repository(t, map[string]string{"base": "0"}), t.TempDir()+"/.everturn"
		m := &model{T: t, rng: rand.New(rand.NewPCG(1, uint64(seed))), sessions: []*modelSession{{}}}
		m.sessions[0].stack = []modelState{{files: map[string]string{"base": "0"}}}
		for step := range 15 {
			if step%4 == 0 {
				m.store = openedIn(t, dir, state) // another process
			}
			m.step(step)
		}
		userGit(t, dir, "fsck", "--strict", "--connectivity-only")
	}
}

// model has the sessions of a sequence.
type model struct {
	*testing.T
	store    *Store
	rng      *rand.Rand
	sessions []*modelSession
	n        int
}

// modelSession has the calls of a transcript, and the states of the tree that an undo goes back through.
type modelSession struct {
	parents []string
	calls   []string
	stack   []modelState
}

type modelState struct {
	call  string
	files map[string]string
}

func (s *modelSession) files() map[string]string { return s.stack[len(s.stack)-1].files }

func (s *modelSession) origin(context.Context) (Origin, error) {
	o := Origin{Parents: s.parents, Calls: slices.Clone(s.calls)}
	slices.Reverse(o.Calls)
	return o, nil
}

// step does something in one of the sessions.
func (m *model) step(step int) {
	at := m.rng.IntN(len(m.sessions))
	name, s := fmt.Sprint("s", at), m.sessions[at]
	switch kind := m.rng.IntN(8); kind {
	default:
		m.change(name, s, kind)
	case 4: // a fork after one of the calls
		fork := &modelSession{parents: append([]string{name}, s.parents...), calls: s.calls[:m.rng.IntN(len(s.calls)+1)]}
		for _, state := range s.stack {
			if state.call == "" || slices.Contains(fork.calls, state.call) {
				fork.stack = append(fork.stack, state)
			}
		}
		name, s = fmt.Sprint("s", len(m.sessions)), fork
		m.sessions = append(m.sessions, fork)
	case 5, 6:
		if _, err := m.store.Undo(m.Context(), "", name); err == nil {
			s.stack = s.stack[:len(s.stack)-1]
		} else if !errors.Is(err, ErrNoCanvas) {
			require.Len(m, s.stack, 1)
		}
	case 7:
		require.NoError(m, os.RemoveAll(m.store.Path("", name)))
	}
	_, err := m.store.Read(m.Context(), Action{Session: name}, s.origin)
	require.NoError(m, err)
	require.Equal(m, s.files(), files(m.T, m.store, name), "step %d", step)
}

// change changes a file: by a file tool (kind 0), by a command, or by one that is killed once (kind 2).
func (m *model) change(name string, s *modelSession, kind int) {
	m.n++
	a := Action{Session: name, Turn: name, Call: fmt.Sprint(m.n)}
	file, text := fmt.Sprintf("d%d/f%d", m.rng.IntN(2), m.rng.IntN(3)), fmt.Sprint(m.n)
	if kind == 2 {
		assert.Panics(m, func() {
			_, _ = m.store.Change(m.Context(), a, s.origin, Change{Title: "x", Run: func(dir string) ([]string, error) {
				assert.NoError(m, errors.Join(put(dir, file, "half"), put(dir, "half", "half")))
				panic("killed")
			}})
		})
	}
	_, err := m.store.Change(m.Context(), a, s.origin, Change{Title: "x", Run: func(dir string) ([]string, error) {
		if kind == 0 {
			return []string{file}, put(dir, file, text)
		}
		return nil, put(dir, file, text)
	}})
	require.NoError(m, err)
	state := modelState{a.call(), maps.Clone(s.files())}
	state.files[file] = text
	s.calls, s.stack = append(slices.Clip(s.calls), state.call), append(slices.Clip(s.stack), state)
}
