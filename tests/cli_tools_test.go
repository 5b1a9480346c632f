package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/everturn/everturn/tests/fakellm"
)

func TestCLIListsToolsAndSaysWhichServersAreAway(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, hosting(t, "good",
		"[mcp.servers.tools.echo]\nrisk = \"low\"\nrepeatable = true\n[mcp.servers.tools.ecko]\nrisk = \"high\"")+
		"[[mcp.servers]]\nid = \"missing\"\ncommand = \"no-such-command-anywhere\"\n"+
		hosting(t, "broken", `env = {SECRET = "canary-of-the-env"}`, "-mode", "exit"))
	tools := h.everturn("tools").exits(1)
	assert.Regexp(t, `(?m)^mcp/good/echo +\S+ +low +true +offered +Answer with the text\.$`, tools.out.String())
	assert.Contains(t, tools.out.String(), "local/read_file")
	assert.Contains(t, tools.err.String(), "missing is not available")
	assert.Contains(t, tools.err.String(), "no-such-command-anywhere")
	assert.Contains(t, tools.err.String(), "no licence found", "the end of the server's stderr")
	assert.NotContains(t, tools.err.String(), "\x1b")
	for _, output := range []string{tools.err.String(), h.everturn("tools", "status", "--connect").exits(1).err.String()} {
		assert.Contains(t, output, "good: agent.toml names tools that the server does not offer: ecko")
		assert.NotContains(t, output, "left out")
	}
	assert.NotContains(t, tools.out.String()+tools.err.String(), "canary-of-the-env")

	list := decoded[[]struct{ Server, Problem string }](h.everturn("tools", "-o", "json").exits(1))
	assert.Len(t, list, 4)
}

func TestCLIRefusesTurnsWithoutARequiredServer(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Text("Hello."))
	h := newUserFolder(t, asking(model)+hosting(t, "needed", "required = true", "-mode", "exit"))
	h.worker()
	run := h.everturn("run", "hello").exits(1)
	assert.Contains(t, run.err.String(), `the required MCP server "needed" is not available`)
	assert.Contains(t, run.err.String(), "no licence found", "the end of the server's stderr")
	assert.Empty(t, model.Requests(), "the model was not asked")
}

// historiesText returns the whole history of a session as the Temporal server returns it, payloads decoded.
func historiesText(t *testing.T, session string) string {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: stack.Address, Logger: quiet})
	require.NoError(t, err)
	defer c.Close()
	var b strings.Builder
	for iter := c.GetWorkflowHistory(t.Context(), session, "", false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); iter.HasNext(); {
		e, err := iter.Next()
		require.NoError(t, err)
		b.WriteString(e.String()) // includes payloads as text
		j, err := protojson.Marshal(e)
		require.NoError(t, err)
		b.Write(j)
	}
	return b.String()
}

// filesWith returns the files below dir, except the one named but, that contain the text.
func filesWith(t *testing.T, dir, text, but string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == but {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			found = append(found, path)
		}
		return err
	}))
	return found
}
