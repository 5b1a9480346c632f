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
	h := newHome(t, hosting(t, "good",
		"[mcp.servers.tools.echo]\nrisk = \"low\"\nrepeatable = true\n[mcp.servers.tools.ecko]\nrisk = \"high\"")+
		"[[mcp.servers]]\nid = \"missing\"\ncommand = \"no-such-command-anywhere\"\n"+
		hosting(t, "broken", `env = {SECRET = "canary-of-the-env"}`, "-mode", "exit"))
	tools := h.starter("tools").exits(1)
	assert.Regexp(t, `(?m)^mcp/good/echo +\S+ +low +true +offered +Answer with the text\.$`, tools.out.String())
	assert.Contains(t, tools.out.String(), "local/read_file")
	assert.Contains(t, tools.err.String(), "missing is not available")
	assert.Contains(t, tools.err.String(), "no-such-command-anywhere")
	assert.Contains(t, tools.err.String(), "no licence found", "the end of the server's stderr")
	assert.NotContains(t, tools.err.String(), "\x1b")
	for _, said := range []string{tools.err.String(), h.starter("tools", "status", "--connect").exits(1).err.String()} {
		assert.Contains(t, said, "good: agent.toml names tools that the server does not offer: ecko")
		assert.NotContains(t, said, "left out")
	}
	assert.NotContains(t, tools.out.String()+tools.err.String(), "canary-of-the-env")

	list := decoded[[]struct{ Server, Problem string }](h.starter("tools", "-o", "json").exits(1))
	assert.Len(t, list, 4)
}

func TestCLIRefusesTurnsWithoutARequiredServer(t *testing.T) {
	t.Parallel()
	model := fakellm.Start(t, fakellm.Text("Hello."))
	h := newHome(t, asking(model)+hosting(t, "needed", "required = true", "-mode", "exit"))
	h.worker()
	run := h.starter("run", "hello").exits(1)
	assert.Contains(t, run.err.String(), `the required MCP server "needed" is not available`)
	assert.Contains(t, run.err.String(), "no licence found", "the end of the server's stderr")
	assert.Empty(t, model.Requests(), "the model was not asked")
}

func TestCLIDoctor(t *testing.T) {
	t.Parallel()
	h := newHome(t, asking(fakellm.Start(t, fakellm.Text("Hello."))))
	well := h.starter("doctor").exits(0)
	for _, line := range []string{"ok    configuration", "ok    journal: .everturn/journal.db",
		"ok    model: openai, scripted",
		"ok    tools: ", "ok    Temporal: server 1."} {
		assert.Contains(t, well.out.String(), line)
	}
	assert.NoDirExists(t, h.path(".everturn"), "looking makes nothing")
	away := h.starter("doctor", "--set", "temporal.address=127.0.0.1:1").exits(5)
	assert.Contains(t, away.out.String(), "FAIL  Temporal: no Temporal answers at 127.0.0.1:1")
	assert.Contains(t, away.out.String(), "ok    model")
	refused := h.starter("doctor", "--set", "llm.base_url=http://127.0.0.1:1/v1").exits(1)
	assert.Contains(t, refused.out.String(), "FAIL  model: ")
}

func TestCLIConfiguration(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	require.NoError(t, os.Remove(h.path("agent.toml")))
	printed := h.starter("init").exits(0)
	h.starter("init", "--write").exits(0)
	b, err := os.ReadFile(h.path("agent.toml"))
	require.NoError(t, err)
	assert.Equal(t, printed.out.String(), string(b))
	again := h.starter("init", "--write").exits(3)
	assert.Contains(t, again.err.String(), "not overwritten")

	h.environ = append(h.environ, "OPENAI_API_KEY=canary-of-the-key")
	shown := h.starter("config", "show", "--origin", "--set", "runtime.max_steps=5").exits(0)
	assert.Regexp(t, `(?m)^.*max_steps.*5.*command line`, shown.out.String())
	assert.Contains(t, shown.out.String(), "environment OPENAI_API_KEY")
	assert.NotContains(t, shown.out.String()+shown.err.String(), "canary-of-the-key")
	assert.Contains(t, decoded[map[string]any](h.starter("config", "schema").exits(0)), "properties")

	h.write("agent.toml", "[runtime]\nmax_stps = 3\n")
	wrong := h.starter("config", "show").exits(3)
	assert.Contains(t, wrong.err.String(), "agent.toml:2:1")
	assert.Contains(t, wrong.err.String(), "max_steps")
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
