package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatTheConfigurationNamesIsProtected tries to read and to change what the configuration names: by its path, in
// another case, through links in the workspace and in the configured path, by a hard link, and before it exists.
func TestWhatTheConfigurationNamesIsProtected(t *testing.T) {
	w, root := tree(t, map[string]string{"conf/everturn.toml": "canary", "data/j.db": "canary", "tapes/a.json": "canary",
		"skills/x/SKILL.md": "canary", "bin/server.py": "canary", "other/f": "plain"})
	for link, to := range map[string]string{"conf.toml": "conf/everturn.toml", "d": "data", "s": "skills",
		"configured": "other/../bin"} {
		require.NoError(t, os.Symlink(to, filepath.Join(root, link)))
	}
	require.NoError(t, os.Link(filepath.Join(root, "data/j.db"), filepath.Join(root, "hard")))
	w.HardLinks = true
	at := func(name string) string { return filepath.Join(root, name) }
	w.Protected = []Protected{
		{at("conf.toml"), true, "the configuration"}, {at("data/j.db"), true, "the journal"},
		{at("data/j.db-wal"), true, "the journal"}, {at("tapes"), true, "a tape"}, {at("skills"), false, "skills"},
		{at("configured/server.py"), false, "the command of a server"}, {at("later/key"), true, "a key"},
	}
	before := snapshot(t, root)
	for name, unread := range map[string]bool{
		"conf/everturn.toml": true, "CONF/everturn.TOML": true, "conf.toml": true, "data/j.db": true, "data/J.DB": true,
		"d/j.db": true, "hard": true, "data/j.db-wal": true, "data/j.db-WAL": true, "d/j.db-wal": true,
		"tapes/a.json": true, "tapes/new/b.json": true, "later/key": true,
		"skills/x/SKILL.md": false, "s/x/SKILL.md": false, "skills/new/SKILL.md": false, "Skills/new/SKILL.md": false,
		"bin/server.py": false,
	} {
		for tool, err := range map[string]error{
			"write":  second(w.write(t.Context(), WriteInput{Path: name, Content: "gone", Overwrite: true})),
			"edit":   second(w.edit(t.Context(), EditInput{Path: name, OldString: "canary", NewString: "gone"})),
			"patch":  second(w.patch(t.Context(), PatchInput{Path: name, Patch: "@@ -1 +1 @@\n-canary\n+gone\n"})),
			"delete": second(w.delete(t.Context(), DeleteInput{Path: name})),
		} {
			assert.Error(t, err, "%s %s", tool, name)
		}
		text, err := w.read(t.Context(), ReadInput{Path: name})
		if _, missing := os.Stat(at(name)); missing == nil {
			assert.Equal(t, unread, err != nil, "%s: %v", name, err)
		}
		if unread {
			assert.NotContains(t, text, "canary", name)
			found, _ := w.search(t.Context(), SearchInput{Path: name, Query: "canary"})
			assert.NotContains(t, found, ": canary", name)
		}
	}
	assert.Equal(t, before, snapshot(t, root))
	found, err := w.search(t.Context(), SearchInput{Query: "canary"})
	require.NoError(t, err)
	assert.Equal(t, "bin/server.py:1: canary\nskills/x/SKILL.md:1: canary\n"+
		"[not searched: 3 files that the configuration names]\n", found)
	_, err = w.list(t.Context(), ListInput{Path: "tapes"})
	require.ErrorIs(t, err, errProtected)
	_, err = w.write(t.Context(), WriteInput{Path: "other/f", Content: "new", Overwrite: true})
	require.NoError(t, err, "what the configuration does not name is written")
}

// TestAProtectedFileIsFoundWhenItIsReplaced checks that a journal that is created, and a configuration that an editor
// replaces, after the tools were registered are recognized by other names.
func TestAProtectedFileIsFoundWhenItIsReplaced(t *testing.T) {
	w, root := tree(t, map[string]string{"f": "plain"})
	w.HardLinks, w.Protected = true, []Protected{{Path: filepath.Join(root, "j.db"), Unread: true, Use: "the journal"}}
	_, err := w.read(t.Context(), ReadInput{Path: "f"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "j.db"), []byte("canary"), 0o600))
	require.NoError(t, os.Link(filepath.Join(root, "j.db"), filepath.Join(root, "g")))
	_, err = w.read(t.Context(), ReadInput{Path: "g"})
	require.ErrorIs(t, err, errProtected)
}

// TestMountsAreNotEntered reads through a mount: with / as the workspace, /proc would show the worker's keys.
func TestMountsAreNotEntered(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("there is no /proc here")
	}
	w, err := open("/", Options{})
	require.NoError(t, err)
	defer w.root.Close()
	_, err = w.read(t.Context(), ReadInput{Path: "proc/self/environ"})
	require.ErrorContains(t, err, "another file system")
}
