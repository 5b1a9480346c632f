package adapters

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/redact"
)

// workspaceOf returns the configuration of a workspace whose authors may instruct the agent.
func workspaceOf(t *testing.T) (cfg config.Config, dir string) {
	t.Helper()
	dir, trusted := t.TempDir(), true
	cfg = config.Default()
	cfg.Runtime.Workspace, cfg.Runtime.TrustWorkspace = dir, &trusted
	return cfg, dir
}

func TestInstructionsOfTheProjectStayInItsWorkspace(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir, outside string) error
		used bool
	}{
		"a file": {func(_ *testing.T, dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("canary"), 0o600)
		}, true},
		"a link to a file beside it": {func(t *testing.T, dir, _ string) error {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "CLAUDE.md"), []byte("canary"), 0o600))
			return os.Symlink("CLAUDE.md", filepath.Join(dir, "AGENTS.md"))
		}, true},
		"a link out of the workspace": {func(_ *testing.T, dir, outside string) error {
			return os.Symlink(outside, filepath.Join(dir, "AGENTS.md"))
		}, false},
		"a link through a folder": {func(t *testing.T, dir, outside string) error {
			require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "docs")))
			return os.Symlink("docs/"+filepath.Base(outside), filepath.Join(dir, "AGENTS.md"))
		}, false},
		"a link to credentials": {func(t *testing.T, dir, _ string) error {
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("canary"), 0o600))
			return os.Symlink(".env", filepath.Join(dir, "AGENTS.md"))
		}, false},
		"a pipe": {func(_ *testing.T, dir, _ string) error {
			return syscall.Mkfifo(filepath.Join(dir, "AGENTS.md"), 0o600)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, dir := workspaceOf(t)
			outside := filepath.Join(t.TempDir(), "notes.md")
			require.NoError(t, os.WriteFile(outside, []byte("canary"), 0o600))
			require.NoError(t, c.make(t, dir, outside))
			words, err := projectInstructions(cfg)
			assert.Equal(t, c.used, strings.Contains(words, "canary"), "%s", words)
			assert.Equal(t, c.used, err == nil)
			cfg.Runtime.TrustWorkspace = nil
			words, err = projectInstructions(cfg)
			require.NoError(t, err)
			assert.Empty(t, words, "only a trusted workspace has any")
		})
	}
}

func TestSkillsOfTheWorkspaceStayInIt(t *testing.T) {
	const skill = "---\nname: release\ndescription: Publish a new version\n---\nCount the files."
	cfg, dir := workspaceOf(t)
	outside := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "skills", "release"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "skills", "release", "SKILL.md"), []byte(skill), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, ".agents")))
	set, problems, err := Skills(cfg)
	require.NoError(t, err)
	assert.Empty(t, set.All)
	assert.Len(t, problems, 1)
	require.NoError(t, os.CopyFS(filepath.Join(dir, ".claude"), os.DirFS(outside)))
	set, _, err = Skills(cfg)
	require.NoError(t, err)
	assert.Len(t, set.All, 1)
}

func TestInstructionsHoldNoSecret(t *testing.T) {
	cfg, dir := workspaceOf(t)
	skill := filepath.Join(dir, ".agents/skills/release")
	require.NoError(t, os.MkdirAll(skill, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(skill, "SKILL.md"),
		[]byte("---\nname: release\ndescription: With key-5e1f09c2\n---\nSend key-5e1f09c2."), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("The key is key-5e1f09c2."), 0o600))
	secrets, log := redact.New(), slog.New(slog.DiscardHandler)
	secrets.Add("key-5e1f09c2")
	tools, err := OpenTools(t.Context(), cfg, ToolOptions{Secrets: secrets, Log: log})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, tools.Close()) })
	i, err := OpenInstructions(cfg, tools, secrets, log)
	require.NoError(t, err)
	got := i.Load()
	assert.Contains(t, got.Project, "[redacted]")
	assert.NotContains(t, got.Project+got.Skills.All[0].Description+got.Skills.All[0].Body, "key-5e1f09c2")
}
