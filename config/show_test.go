package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const secretive = `
[llm]
api_key = "sk-plain-${KEY:-sk-fallback}"
temperature = 0.5
[[mcp.servers]]
id = "files"
command = "serve"
args = ["--token", "${TOKEN}"]
env = { PASSWORD = "hunter2" }
[mcp.servers.tools."read.file"]
repeatable = true
[[mcp.servers]]
id = "web"
url = "https://example.com/mcp"
headers.Authorization = "Bearer ${TOKEN}"
`

func load(t *testing.T, text string, environ ...string) *Loaded {
	t.Helper()
	loaded, err := Load(LoadOptions{Path: write(t, text), Environ: environ})
	require.NoError(t, err)
	return loaded
}

func shown(t *testing.T, l *Loaded, origin bool) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, l.Show(&out, origin))
	return strings.ReplaceAll(out.String(), l.Path, "agent.toml")
}

func TestShowTellsOriginsAndHidesSecrets(t *testing.T) {
	loaded := load(t, secretive, "TOKEN=t0psecret", "KEY=sk-environment", "EVERTURN_RUNTIME_MAX_STEPS=3")
	got := shown(t, loaded, true)
	for _, line := range []string{
		"api_key = 'set'  # from agent.toml:3",
		"temperature = 0.5  # from agent.toml:4",
		"args = ['--token', '${TOKEN}']  # from agent.toml:8",
		"[mcp.servers.env]\nPASSWORD = 'set'  # from agent.toml:9",
		"[mcp.servers.tools.\"read.file\"]\nrepeatable = true  # from agent.toml:11",
		"[mcp.servers.headers]\nAuthorization = 'set'  # from agent.toml:15",
		"max_steps = 3  # from environment EVERTURN_RUNTIME_MAX_STEPS",
		"turn_timeout = '30m'  # from preset standard",
		"[temporal]\naddress = ''  # from default",
		"# token = (not set)  # from default",
	} {
		assert.Contains(t, got, line+"\n")
	}
	for _, secret := range []string{"t0psecret", "sk-", "hunter2"} {
		assert.NotContains(t, strings.ReplaceAll(got, "'\\bsk-[A-Za-z0-9_-]{16,}'", ""), secret)
	}
}

func TestShowHidesWhatAURLMayCarry(t *testing.T) {
	for url, want := range map[string]string{
		"https://example.com/mcp":                      "https://example.com/mcp",
		"https://example.com/mcp?key=canary&b=canary2": "https://example.com/mcp?key=hidden&b=hidden",
		"https://example.com/mcp?canary":               "https://example.com/mcp?hidden",
		"https://example.com/v1/sk-canary/mcp":         "https://example.com/v1/hidden/mcp",
	} {
		got := shown(t, load(t, "[[mcp.servers]]\nid = \"web\"\nurl = \""+url+"\"\n"), false)
		assert.Contains(t, got, "url = '"+want+"'")
		assert.NotContains(t, got, "canary")
	}
	written := shown(t,
		load(t, "[[mcp.servers]]\nid = \"web\"\nurl = \"https://example.com/mcp?key=${K}\"\n",
			"K=canary"), false)
	assert.Contains(t, written, "url = 'https://example.com/mcp?key=${K}'", "a reference is no secret")
}

func TestWhatServersAreToInheritIsLookedForWhereTheyAreStarted(t *testing.T) {
	loaded := load(t, "[[mcp.servers]]\nid = \"files\"\ncommand = \"serve\"\nenv_allow = [\"SET\",\n  \"UNSET\"]\n",
		"SET=")
	require.NoError(t, loaded.CheckEnviron([]string{"SET=", "UNSET=1"}))
	err := loaded.CheckEnviron([]string{"SET="})
	require.ErrorIs(t, err, ErrCredentials)
	assert.Equal(t, loaded.Path+
		`:5:3: mcp.servers[0].env_allow[1] names UNSET, which is not set; set it, or remove it from the list of server "files"`, err.Error())
	err = loaded.Config.CheckEnviron(nil)
	require.ErrorIs(t, err, ErrCredentials)
	assert.Contains(t, err.Error(), "mcp.servers[0].env_allow[0] names SET")
}

func TestSecretsStayHiddenHoweverTheyArePrinted(t *testing.T) {
	c := load(t, secretive, "TOKEN=t0psecret").Config
	asJSON, err := json.Marshal(c)
	require.NoError(t, err)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("config", "key", c.LLM.APIKey, "headers", c.MCP.Servers[1].Headers)
	for _, printed := range []string{
		fmt.Sprintf("%v %+v %#v %s %q %x", c, c, c, c.LLM.APIKey, c.LLM.APIKey, c.LLM.APIKey), string(asJSON),
		logged.String(),
	} {
		assert.NotContains(t, printed, "sk-plain")
		assert.NotContains(t, printed, "Bearer t0psecret")
		assert.NotContains(t, printed, "hunter2")
	}
}

func TestWhatIsShownLoadsAgain(t *testing.T) {
	first := load(t, strings.NewReplacer("${TOKEN}", "x", "${KEY:-sk-fallback}", "y").Replace(secretive))
	again := load(t, shown(t, first, true))
	want := first.Config
	want.sources = again.Config.sources
	want.LLM.APIKey = "set"
	want.MCP.Servers[0].Env["PASSWORD"], want.MCP.Servers[1].Headers["Authorization"] = "set", "set"
	assert.Equal(t, want, again.Config)
}

func TestSchemaAcceptsTheExample(t *testing.T) {
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(Schema(), &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)

	var tree any
	require.NoError(t, toml.Unmarshal([]byte(commented.ReplaceAllString(Example(), "$1")), &tree))
	assert.NoError(t, resolved.Validate(tree))
	assert.Error(t, resolved.Validate(map[string]any{"runtime": map[string]any{"max_step": 3}}))
	assert.Error(t, resolved.Validate(map[string]any{"runtime": map[string]any{"turn_timeout": "90"}}))
	assert.Error(t, resolved.Validate(map[string]any{"llm": map[string]any{"retry_for": "90"}}))
}
