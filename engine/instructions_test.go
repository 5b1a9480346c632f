package engine

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// TestChangesOfSkillsKeepToTheRules changes the skills of a worker that has started: the rules are those of its start.
func TestChangesOfSkillsKeepToTheRules(t *testing.T) {
	dir, team, trusted := t.TempDir(), t.TempDir(), true
	cfg := config.Default()
	cfg.Runtime.Workspace, cfg.Runtime.TrustWorkspace = dir, &trusted
	cfg.Skills.Sources = []config.SkillSource{{Path: team}}
	write := func(name string) {
		require.NoError(t, os.MkdirAll(name, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(name, "SKILL.md"), []byte("---\nname: "+filepath.Base(name)+
			"\ndescription: Work well\n---\nDo it."), 0o600))
	}
	write(filepath.Join(team, "style"))
	var log bytes.Buffer
	e := newEngine(cfg, []Option{WithLogger(slog.New(slog.NewJSONHandler(&log, nil)))})
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	require.NoError(t, e.openModel(t.Context()))
	require.NoError(t, e.openTools(t.Context()))
	require.NoError(t, e.openInstructions(t.Context()))
	settings := e.settings()
	namesOf := func() (names []string) {
		e.instructions.Refresh()
		for _, s := range settings.Skills().All {
			names = append(names, s.Name)
		}
		return names
	}
	assert.Equal(t, []string{"style"}, namesOf())
	assert.Zero(t, log.Len(), "nothing is read again without a change")

	write(filepath.Join(dir, ".agents", "skills", "release"))
	assert.Equal(t, []string{"release", "style"}, namesOf())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("Be brief."), 0o600))
	e.instructions.Refresh()
	assert.Contains(t, settings.Project(), "Be brief.")

	outside := filepath.Join(t.TempDir(), "agents")
	require.NoError(t, os.Rename(filepath.Join(dir, ".agents"), outside))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, ".agents")))
	assert.Equal(t, []string{"style"}, namesOf(), "a link out of the workspace is not followed")

	log.Reset()
	require.NoError(t, os.Rename(team, team+"-gone"))
	assert.Equal(t, []string{"style"}, namesOf(), "a source that cannot be read")
	assert.Equal(t, []string{"style"}, namesOf())
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte(`"level":"WARN"`)), "%s", &log)

	require.NoError(t, os.Mkdir(team, 0o700))
	assert.Empty(t, namesOf())
	for _, d := range e.tools.Catalogues(t.Context())[0].Tools {
		assert.NotEqual(t, turn.ActivateSkill, d.ID)
	}
}
