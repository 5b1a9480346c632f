package config

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

func TestTooManyRules(t *testing.T) {
	rules := strings.Repeat("[[policy.rules]]\ntool = \"*\"\npermit = \"ask\"\n", maxRules+1)
	assert.Contains(t, refused(t, LoadOptions{}, rules), "policy.rules has 65 rules")
}

func TestRulesThatAreTaken(t *testing.T) {
	loaded, err := Load(LoadOptions{
		Path: write(t, `
[[policy.rules]]
tool = "mcp/files/write"
arguments = { path = "${FOLDER}/**", "options.to" = "*@corp.com", n = "7" }
permit = "allow"
[[policy.rules]]
tool = "mcp/files/*"
arguments.path = "/**"
permit = "ask"
why = "that is outside"
[[policy.rules]]
tool = "*"
permit = "deny"
`),
		Environ: []string{"FOLDER=docs"},
	})
	require.NoError(t, err)
	assert.Equal(t, []turn.Rule{
		{Tool: "mcp/files/write", Arguments: map[string]string{"path": "docs/**", "options.to": "*@corp.com", "n": "7"},
			Permit: turn.Allow},
		{Tool: "mcp/files/*", Arguments: map[string]string{"path": "/**"}, Permit: turn.Ask, Why: "that is outside"},
		{Tool: "*", Permit: turn.Deny},
	}, loaded.Config.Policy.Rules)
	shown := shown(t, loaded, true)
	assert.Contains(t, shown, "[policy.rules.arguments]\nn = '7'  # from agent.toml:4\n\"options.to\" = '*@corp.com'  # "+
		"from agent.toml:4\npath = '${FOLDER}/**'  # from agent.toml:4\n")
	again := load(t, strings.ReplaceAll(shown, "${FOLDER}", "docs"))
	assert.Equal(t, loaded.Config.Policy, again.Config.Policy)
}

func TestAddressesOfTemporal(t *testing.T) {
	for _, address := range []string{"127.0.0.1:7233", "localhost:7233", "[::1]:7233", "temporal.example:7233"} {
		_, err := Load(LoadOptions{Path: write(t, "[temporal]\naddress = \""+address+"\"\n")})
		assert.NoError(t, err, address)
	}
}

func TestTenantNamesThatAreRejected(t *testing.T) {
	for _, bad := range []string{"a/b", " a", "-a", "a b", "é", strings.Repeat("a", 65), "tenant:x", "a\x00"} {
		_, err := Load(LoadOptions{Overrides: map[string]string{"tenant": bad}})
		assert.ErrorContains(t, err, "tenant is", "%q", bad)
	}
}

// TestForeignKeysNameKeysThatExist checks the dotted keys in the hints about other programs' keys.
func TestForeignKeysNameKeysThatExist(t *testing.T) {
	dotted := regexp.MustCompile(`\b[a-z_]+\.[a-z_]+\b`)
	known := append(settingKeys(), "policy.rules", "mcp.servers", "timeouts.call", "timeouts.connect")
	hints := maps.Clone(foreign)
	maps.Copy(hints, removed)
	for name, hint := range hints {
		for _, key := range dotted.FindAllString(hint, -1) {
			assert.Contains(t, known, key, name)
		}
	}
}

// TestRemovedKeysSayWhatToDoInstead checks the file, the environment and the command line.
func TestRemovedKeysSayWhatToDoInstead(t *testing.T) {
	for key := range removed {
		assert.NotContains(t, settingKeys(), key)
	}
	got := refused(t, LoadOptions{
		Environ:   []string{"EVERTURN_JOURNAL_DRIVER=postgres", "EVERTURN_TELEMETRY_CONTENT=true"},
		Overrides: map[string]string{"temporal.allow_plaintext": "true"},
	}, "[[mcp.servers]]\nid = \"a\"\ncommand = \"x\"\ntimeouts.idle = \"1m\"\n")
	assert.Equal(t, `agent.toml:4:10: unknown key mcp.servers[0].timeouts.idle; remove it: an unused connection stays open for 10m
environment EVERTURN_JOURNAL_DRIVER: journal.driver is gone; remove it: a journal with a url is a Postgres database
environment EVERTURN_TELEMETRY_CONTENT: telemetry.content is gone; set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true
command line: unknown key temporal.allow_plaintext; set TEMPORAL_TLS=false`, got)
}
