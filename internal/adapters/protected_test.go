package adapters

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/config"
)

func TestWhatTheConfigurationNamesIsKeptFromTheTools(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"bin/serve", "tools/server.py", "tools/data.json", "docs/a.md", "key",
		"lib/main.py"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	}
	require.NoError(t, os.Symlink("docs/notes.md", "AGENTS.md"))
	here, err := os.Getwd()
	require.NoError(t, err)
	t.Setenv("HOME", here)
	t.Setenv("XDG_CONFIG_HOME", "")
	require.NoError(t, os.MkdirAll(".config/temporalio", 0o700))
	require.NoError(t, os.WriteFile(".config/temporalio/temporal.toml",
		[]byte("[profile.default.tls]\nclient_key_path = \""+here+"/client.pem\"\n"), 0o600))
	require.NoError(t, os.WriteFile("everturn.toml", []byte(`
[llm]
tape = "record:tapes"
api_key = "${file:`+here+`/key}"
[journal]
path = "data/j.db"
[encryption]
key_file = "keys.json"
[[skills.sources]]
path = "skills"
[[mcp.servers]]
id = "a"
command = "./serve"
dir = "bin"
[[mcp.servers]]
id = "b"
command = "python3"
args = ["-u", "tools/server.py", "--state=tools/data.json", "docs", "build/later.js", "word"]
env = { PATH = "`+here+`/own" }
[[mcp.servers]]
id = "c"
command = "uv"
args = ["--directory", "lib", "run", "main.py"]
[[mcp.servers]]
id = "d"
command = "env"
args = ["NODE_OPTIONS=--require=./hook.js", "sh", "-c", "sh ./run.sh"]
env = { BASH_ENV = "./bash.env" }
[runtime]
workspace = "."
`), 0o600))
	loaded, err := config.Load(config.LoadOptions{Path: "everturn.toml"})
	require.NoError(t, err)
	list := protectedFiles(loaded.Config, []string{"PATH=" + here + "/local:/usr/bin"})
	var unread, unchanged []string
	for _, p := range list {
		name := files.Within(here, p.Path)
		switch {
		case name == "":
		case p.Unread:
			unread = append(unread, name)
		default:
			unchanged = append(unchanged, name)
		}
		assert.NotEmpty(t, p.Use)
	}
	slices.Sort(unread)
	assert.Equal(t, []string{".config/temporalio/temporal.toml", "client.pem",
		"data/j.db", "data/j.db-journal", "data/j.db-shm", "data/j.db-wal",
		"everturn.toml", "key", "keys.json", "tapes"}, unread)
	for _, name := range []string{"skills", "bin/serve", "own/python3", "local/uv", "tools/server.py",
		"tools/data.json", "build/later.js", "lib/main.py", "hook.js", "run.sh", "bash.env", "docs/notes.md"} {
		assert.Contains(t, unchanged, name)
	}
	assert.NotContains(t, unchanged, "docs")
	assert.NotContains(t, unchanged, "word")
}
