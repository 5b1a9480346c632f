package servers

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/servers/npm"
	"github.com/everturn/everturn/workflows/turn"
)

// picture is a PNG of one pixel.
const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func TestFilesystem(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	outside := filepath.Join(t.TempDir(), "secret.txt")
	require.NoError(t, os.WriteFile(outside, []byte("not for the model"), 0o600))
	png, err := base64.StdEncoding.DecodeString(picture)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dot.png"), png, 0o600))
	r := newHarness(t, stdioServer(t, "files", "@modelcontextprotocol/server-filesystem", dir))

	writing := r.turn(
		ask("list_allowed_directories", ""),
		ask("create_directory", `{"path":"%s/notes/old"}`, dir),
		ask("write_file", `{"path":"%s/notes/a.txt","content":"Ottoline keeps the light.\n"}`, dir),
		ask("write_file", `{"path":"%s/notes/b.txt","content":"second\n"}`, dir),
		ask("edit_file", `{"path":"%s/notes/a.txt","edits":[{"oldText":"the light","newText":"the lighthouse"}]}`, dir),
		ask("move_file", `{"source":"%s/notes/b.txt","destination":"%s/notes/old/c.txt"}`, dir, dir),
		call{tool: "write_file", args: `{"path":"` + outside + `","content":"overwritten"}`, ends: turn.OutcomeError},
	)
	assert.Contains(t, writing[0], dir)
	assert.Equal(t, "Ottoline keeps the lighthouse.\n", read(t, dir, "notes/a.txt"))
	assert.Equal(t, "second\n", read(t, dir, "notes/old/c.txt"))
	assert.NoFileExists(t, filepath.Join(dir, "notes/b.txt"))
	assert.Equal(t, "not for the model", read(t, filepath.Dir(outside), "secret.txt"))

	reading := r.turn(
		ask("read_file", `{"path":"%s/notes/a.txt"}`, dir),
		ask("read_text_file", `{"path":"%s/notes/a.txt","head":1}`, dir),
		ask("read_multiple_files", `{"paths":["%s/notes/a.txt","%s/notes/old/c.txt"]}`, dir, dir),
		ask("read_media_file", `{"path":"%s/dot.png"}`, dir),
		ask("list_directory", `{"path":"%s/notes"}`, dir),
		ask("list_directory_with_sizes", `{"path":"%s/notes"}`, dir),
		ask("directory_tree", `{"path":"%s"}`, dir),
		ask("search_files", `{"path":"%s","pattern":"**/*.txt"}`, dir),
		ask("get_file_info", `{"path":"%s/notes/a.txt"}`, dir),
	)
	assert.Contains(t, reading[0], "Ottoline keeps the lighthouse.")
	assert.Contains(t, reading[1], "Ottoline keeps the lighthouse.")
	assert.Contains(t, reading[2], "second")
	assert.Contains(t, reading[3], "image/png")
	assert.Contains(t, reading[4], "[DIR] old")
	assert.Contains(t, reading[6], "c.txt")
	assert.Contains(t, reading[7], "notes/old/c.txt")
	assert.Contains(t, reading[8], "31")
	r.offersOnlyWhatWasCalled()
}

// Most servers are started through npx, which starts a shell, which starts the server: all three must end.
func TestThroughNpx(t *testing.T) {
	t.Parallel()
	tree := npm.Need(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	r := newHarness(t, config.MCPServer{
		ID: "files", Command: "npx",
		Args: []string{"--no-install", "mcp-server-filesystem", dir},
		Dir:  tree.Dir, Env: map[string]config.Secret{
			"PATH": config.Secret(filepath.Dir(tree.Node) + ":" + os.Getenv("PATH"))},
	})
	r.turn(ask("write_file", `{"path":"%s/a.txt","content":"through npx"}`, dir))
	assert.Equal(t, "through npx", read(t, dir, "a.txt"))
	assert.Greater(t, len(r.processes()), 1, "npx and what it has started")
}

// read returns a file's content.
func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(b)
}
