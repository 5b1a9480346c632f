package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refused loads an invalid configuration and returns the error's text without the file's folder.
func refused(t *testing.T, o LoadOptions, text string) string {
	t.Helper()
	o.Path = write(t, text)
	loaded, err := Load(o)
	require.Error(t, err)
	require.Nil(t, loaded)
	return strings.ReplaceAll(err.Error(), o.Path, "agent.toml")
}

// telltale matches what tells one error message from another: places, keys, quoted values and numbers.
var telltale = regexp.MustCompile("agent\\.toml:\\S+|\"[^\"\\n]*\"|[^\\s,;:]*[_.=\\d\\[\\]*/$][^\\s,;]*")

// telling returns the tokens of a message, so that tests do not depend on its prose.
func telling(message string) string { return strings.Join(telltale.FindAllString(message, -1), " ") }

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key": {
			"[runtime]\n  max_step = 3\n",
			`agent.toml:2:3: unknown key runtime.max_step; did you mean runtime.max_steps?`,
		},
		"key of another section": {
			"[runtime]\nretry_max = 3\n",
			`agent.toml:2:1: unknown key runtime.retry_max; did you mean llm.retry_max?`,
		},
		"key without a section": {
			"max_steps = 3\n",
			`agent.toml:1:1: unknown key max_steps; did you mean runtime.max_steps?`,
		},
		"unknown section": {
			"[runtme]\nmax_steps = 3\n",
			`agent.toml:1:2: unknown key runtme; did you mean runtime?`,
		},
		"unknown key of a second server": {
			"[[mcp.servers]]\nid = \"a\"\ncommand = \"x\"\n[[mcp.servers]]\nid = \"b\"\ncomand = \"x\"\n",
			"agent.toml:6:1: unknown key mcp.servers[1].comand; did you mean mcp.servers[1].command?\n" +
				"agent.toml:4:7: mcp.servers[1].command is missing; name the server's program, or set transport = \"http\" and url",
		},
		"hostile key": {
			"[runtime]\n\"\\u001b]0;x\" = 1\n",
			`agent.toml:2:1: unknown key runtime."\x1b]0;x"; known here: agent, keep_history_messages, max_consecutive_errors, ` +
				`max_cost_usd, max_history_messages, max_parallel_calls, max_reprompts, max_result_bytes, max_steps, max_tokens, ` +
				`max_tool_calls, mode, redact, system_prompt, tool_timeout, turn_timeout, workspace`,
		},
		"wrong type": {
			"[runtime]\nmax_steps = \"twelve\"\n",
			`agent.toml:2:13: runtime.max_steps is a string; it must be an integer`,
		},
		"wrong type in a list": {
			"[policy]\nallow = [\"*\", 3]\n",
			`agent.toml:2:15: policy.allow[1] is an integer; it must be a string`,
		},
		"section that is no table": {
			"llm = true\n",
			`agent.toml:1:7: llm is true or false; it must be a table`,
		},
		"fraction for an integer": {
			"[runtime]\nmax_steps = 1.5\n",
			`agent.toml:2:13: runtime.max_steps is a number with a fraction; it must be an integer`,
		},
		"duration without a unit": {
			"[llm]\nidle_timeout = \"15\"\n",
			`agent.toml:2:16: llm.idle_timeout is "15"; it must be a duration such as "15s" or "2m30s"`,
		},
		"duration as a number": {
			"[llm]\nidle_timeout = 15\n",
			`agent.toml:2:16: llm.idle_timeout is an integer; it must be a duration such as "15s" or "2m30s"`,
		},
		"not a number": {
			"[llm]\ntemperature = nan\n",
			`agent.toml:2:15: llm.temperature is a number with a fraction; it must be a number`,
		},
		"unset variable, column in characters": {
			"[runtime]\nsystem_prompt = \"é ${NOT_SET}\"\n",
			`agent.toml:2:20: runtime.system_prompt needs the environment variable NOT_SET, which is not set; set it, or write ${NOT_SET:-default}`,
		},
		"unset variable in an argument": {
			"[[mcp.servers]]\nid = \"a\"\ncommand = \"x\"\nargs = [\"--token\", \"${T}\"]\n",
			`agent.toml:4:21: mcp.servers[0].args[1] needs the environment variable T, which is not set; set it, or write ${T:-default}`,
		},
		"half a reference": {
			"[llm]\nmodel = \"${\"\n",
			`agent.toml:2:10: llm.model has an invalid ${ reference; write ${VAR}, ${VAR:-default} or ${file:/path}, or $${ for a literal ${`,
		},
		"syntax": {
			"[runtime\nmax_steps = 3\n",
			`agent.toml:1:9: not valid TOML: expected ']' to close table name`,
		},
		"the same key twice": {
			"[runtime]\nmax_steps = 3\nmax_steps = 4\n",
			"agent.toml:3:1: not valid TOML: key max_steps is already defined",
		},
		"two problems at once": {
			"[runtime]\nmax_steps = 0\n[llm]\nprovider = \"opnai\"\n",
			"agent.toml:2:13: runtime.max_steps is 0; it must be at least 1\n" +
				`agent.toml:4:12: llm.provider is "opnai"; it must be one of auto, demo, openai; did you mean openai?`,
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, telling(c.want), telling(refused(t, LoadOptions{}, c.text))) })
	}
}

func TestLayersInTheirOrder(t *testing.T) {
	path := write(t, "[runtime]\nmax_steps = 2\nmax_tool_calls = 2\nmax_reprompts = 2\n")
	loaded, err := Load(LoadOptions{
		Path: path,
		Environ: []string{"EVERTURN_RUNTIME_MAX_TOOL_CALLS=3", "EVERTURN_RUNTIME_MAX_REPROMPTS=3",
			"EVERTURN_POLICY_DENY=local/a, mcp/b/*"},
		Overrides: map[string]string{"runtime.max_reprompts": "4", "runtime.turn_timeout": "2m", "llm.temperature": "0"},
	})
	require.NoError(t, err)
	r := loaded.Config.Runtime
	assert.Equal(t, []int{2, 3, 4, 2}, []int{r.MaxSteps, r.MaxToolCalls, r.MaxReprompts, r.MaxConsecutiveErrors})
	assert.Equal(t, 2*time.Minute, r.TurnTimeout)
	assert.Equal(t, []string{"local/a", "mcp/b/*"}, loaded.Config.Policy.Deny)
	assert.Zero(t, *loaded.Config.LLM.Temperature)
	assert.Equal(t, path+":2", loaded.Origin("runtime.max_steps"))
	assert.Equal(t, "environment EVERTURN_RUNTIME_MAX_TOOL_CALLS", loaded.Origin("runtime.max_tool_calls"))
	assert.Equal(t, "command line (runtime.max_reprompts)", loaded.Origin("runtime.max_reprompts"))
	assert.Equal(t, "default", loaded.Origin("runtime.mode"))
}

func TestBadEnvironmentAndCommandLine(t *testing.T) {
	got := refused(t, LoadOptions{
		Environ: []string{
			"EVERTURN_RUNTIME_MAX_STEPS=many", "EVERTURN_RUNTIME_MAX_STEP=3", "EVERTURN_RUNTIME_MODE=nativ",
			"EVERTURN_SOMETHING_ELSE=1", "EVERTURN_WORKER_DRAIN_TIMEOUT=",
		},
		Overrides: map[string]string{"llm.modle": "x", "runtime.max_cost_usd": "NaN"},
	}, "")
	assert.Equal(t, `environment EVERTURN_RUNTIME_MAX_STEPS: runtime.max_steps is "many"; it must be an integer
environment EVERTURN_RUNTIME_MAX_STEP: no key of agent.toml has this variable; did you mean EVERTURN_RUNTIME_MAX_STEPS?
command line: unknown key "llm.modle"; did you mean llm.model?
command line (runtime.max_cost_usd): runtime.max_cost_usd is "NaN"; it must be a number
environment EVERTURN_RUNTIME_MODE: runtime.mode is "nativ"; it must be one of auto, native, json; did you mean native?`, got)
}

func TestInterpolation(t *testing.T) {
	loaded, err := Load(LoadOptions{
		Path: write(t, `
[llm]
model = "${FAMILY}-${SIZE:-mini}$${x}"
base_url = "http://${EMPTY:-localhost}:1/v1"
idle_timeout = "${IDLE:-7s}"
[runtime]
agent = "a${EMPTY}b"
`),
		Environ: []string{"FAMILY=gpt", "EMPTY="},
	})
	require.NoError(t, err)
	assert.Equal(t, "gpt-mini${x}", loaded.Config.LLM.Model)
	assert.Equal(t, "http://localhost:1/v1", loaded.Config.LLM.BaseURL)
	assert.Equal(t, 7*time.Second, loaded.Config.LLM.IdleTimeout)
	assert.Equal(t, "ab", loaded.Config.Runtime.Agent)
}

func TestOtherProgramsVariablesFillInButNeverOverride(t *testing.T) {
	environ := []string{"OPENAI_API_KEY=sk-openai", "OPENAI_BASE_URL=http://other/v1", "EVERTURN_LLM_MODEL=m"}
	empty, err := Load(LoadOptions{Path: write(t, ""), Environ: environ})
	require.NoError(t, err)
	assert.Equal(t, "sk-openai", empty.Config.LLM.APIKey.Reveal())
	assert.Equal(t, "http://other/v1", empty.Config.LLM.BaseURL)
	assert.Equal(t, "environment OPENAI_API_KEY", empty.Origin("llm.api_key"))

	text := "[llm]\nbase_url = \"http://mine/v1\"\napi_key = \"mine\"\n"
	own, err := Load(LoadOptions{Path: write(t, text), Environ: environ})
	require.NoError(t, err)
	assert.Equal(t, "mine", own.Config.LLM.APIKey.Reveal())
	assert.Equal(t, "http://mine/v1", own.Config.LLM.BaseURL)

	stronger, err := Load(LoadOptions{Path: write(t, text), Environ: append(environ, "EVERTURN_LLM_API_KEY=theirs")})
	require.NoError(t, err)
	assert.Equal(t, "theirs", stronger.Config.LLM.APIKey.Reveal())
}

func TestTheFileIsOptionalOnlyWhereNobodyNamedIt(t *testing.T) {
	t.Chdir(t.TempDir())
	loaded, err := Load(LoadOptions{})
	require.NoError(t, err)
	assert.Equal(t, Default(), loaded.Config)
	assert.Empty(t, loaded.Path)

	_, err = Load(LoadOptions{Path: "other.toml"})
	assert.ErrorIs(t, err, ErrInvalid)
	assert.EqualError(t, err, "other.toml: reading the configuration: open other.toml: no such file or directory")

	require.NoError(t, os.WriteFile("agent.toml", []byte("[runtime]\nmax_steps = 7\n"), 0o600))
	loaded, err = Load(LoadOptions{})
	require.NoError(t, err)
	assert.Equal(t, 7, loaded.Config.Runtime.MaxSteps)
	assert.Equal(t, "agent.toml:2", loaded.Origin("runtime.max_steps"))
}

func TestAFileThatIsTooLargeIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.toml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("#\n", MaxFileBytes/2+1)), 0o600))
	_, err := Load(LoadOptions{Path: path})
	assert.ErrorContains(t, err, "larger than 1048576 bytes")
}

func TestHostileFilesCostLittleTimeAndText(t *testing.T) {
	for name, text := range map[string]string{
		"very many references": "[llm]\nmodel = '" + strings.Repeat("${A}", 1<<17) + "'\n",
		"a very deep key":      strings.Repeat("a.", 1<<16) + "b = 1\n",
		"a very long key":      strings.Repeat("a", 1<<19) + " = 1\n",
		"very many servers":    strings.Repeat("[[mcp.servers]]\n", 1<<14),
		"very deep lists":      "a = " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "\n",
		"a long table":         "[" + strings.Repeat("a", 1<<18) + "]\n" + keys(1<<12),
	} {
		start := time.Now()
		assert.Less(t, len(refused(t, LoadOptions{}, text)), maxProblems*3000, name)
		assert.Less(t, time.Since(start), 20*time.Second, name)
	}
}

// keys returns n settings that no table has.
func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d=1\n", i)
	}
	return b.String()
}

func TestCredentialsAreAnErrorOfTheirOwn(t *testing.T) {
	loaded, err := Load(LoadOptions{Path: write(t, "[llm]\nprovider = \"openai\"\n")})
	require.NoError(t, err, "what needs no model must work without a key")
	err = loaded.Config.LLM.CheckCredentials()
	require.ErrorIs(t, err, ErrCredentials)
	assert.False(t, errors.Is(err, ErrInvalid))
	assert.ErrorContains(t, err, "OPENAI_API_KEY")

	_, err = Load(LoadOptions{Path: write(t, "[llm]\napi_key = \"${NOT_SET}\"\n")})
	require.ErrorIs(t, err, ErrCredentials)
	_, err = Load(LoadOptions{Path: write(t, "[llm]\napi_key = \"${NOT_SET}\"\nretry_max = -1\n")})
	require.ErrorIs(t, err, ErrInvalid)
}

func TestKeysOfOtherAgentsNameOurs(t *testing.T) {
	for text, ours := range map[string]string{
		"[runtime]\ntool_timeout_ms = 15000\n":      "runtime.tool_timeout",
		"deny_tools = [\"shell\"]\n":                "policy.deny",
		"[llm]\ndefault_model = \"m\"\n":            "llm.model",
		"[[skills.sources]]\npath = \"skills\"\n":   "runtime.system_prompt",
		"[mcpServers.files]\ncommand = \"serve\"\n": "[[mcp.servers]]",
	} {
		said := refused(t, LoadOptions{}, text)
		assert.Contains(t, said, ours)
		assert.NotContains(t, said, "\n", "one problem")
	}
}
