package replay

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// folder returns a folder for histories that the README of the kept ones describes.
func folder(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	b, err := os.ReadFile(filepath.Join(dir, readme))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(to, readme), b, 0o600))
	return to
}

func TestAKeptHistoryIsNotOverwritten(t *testing.T) {
	to := folder(t)
	events := kept(t, "v1-answer")
	require.NoError(t, Keep(to, "v1-answer", events))
	file := filepath.Join(to, "v1-answer.json")
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	again, err := Read(file)
	require.NoError(t, err)
	require.Len(t, again, len(events))
	for i := range events {
		assert.True(t, proto.Equal(events[i], again[i]), "event %d", i+1)
	}

	err = Keep(to, "v1-answer", events)
	assert.ErrorIs(t, err, ErrKept)
	assert.ErrorContains(t, err, "record under another name")
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	wrong, err := Changed(to)
	require.NoError(t, err)
	assert.Empty(t, wrong)
}

func TestInvalidHistoriesAreNotKept(t *testing.T) {
	to := folder(t)
	answer := kept(t, "v1-answer")
	broken := kept(t, "v1-answer")
	for _, e := range broken {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			a.ActivityId = "99"
		}
	}
	assert.ErrorContains(t, Keep(to, "v9-unheard-of", answer), `say first what it is`)
	assert.ErrorContains(t, Keep(to, "../v1-answer", answer), "a name is")
	assert.ErrorIs(t, Keep(to, "v1-answer", broken), ErrNondeterministic)
	assert.Error(t, Keep(to, "v1-answer", nil))
	assert.ErrorContains(t, Keep(filepath.Join(to, "nowhere"), "v1-answer", answer), "no such file")
	entries, err := os.ReadDir(to)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing was written")
}

func TestEditedHistoriesAreReported(t *testing.T) {
	to := folder(t)
	for _, name := range []string{"v1-answer", "v1-invalid-action"} {
		require.NoError(t, Keep(to, name, kept(t, name)))
	}
	edited := filepath.Join(to, "v1-answer.json")
	b, err := os.ReadFile(edited)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(edited, append(b, '\n'), 0o600))
	require.NoError(t, os.Remove(filepath.Join(to, "v1-invalid-action.json")))
	require.NoError(t, os.WriteFile(filepath.Join(to, "v1-smuggled.json"), b, 0o600))
	wrong, err := Changed(to)
	require.NoError(t, err)
	require.Len(t, wrong, 3)
	assert.Contains(t, wrong[0], "v1-answer.json is not what was recorded")
	assert.Contains(t, wrong[1], "v1-smuggled.json has no line")
	assert.Contains(t, wrong[2], "v1-invalid-action.json is gone")
}
