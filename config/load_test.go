package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
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

// TestWrongFiles compares the errors of testdata/wrong.txtar, which -update writes: read its diff.
func TestWrongFiles(t *testing.T) {
	const path = "testdata/wrong.txtar"
	archive, err := txtar.ParseFile(path)
	require.NoError(t, err)
	for i, f := range archive.Files {
		var text, want, got strings.Builder
		for line := range strings.Lines(string(f.Data)) {
			if strings.HasPrefix(line, "#= ") {
				want.WriteString(line)
			} else {
				text.WriteString(line)
			}
		}
		t.Run(f.Name, func(t *testing.T) {
			for line := range strings.SplitSeq(refused(t, LoadOptions{}, text.String()), "\n") {
				got.WriteString("#= " + line + "\n")
			}
			if !*update {
				assert.Equal(t, want.String(), got.String())
			}
			archive.Files[i].Data = []byte(text.String() + got.String())
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(path, txtar.Format(archive), 0o644))
	}
}

func TestLayersInTheirOrder(t *testing.T) {
	path := write(t, "[runtime]\nmax_steps = 2\nmax_tool_calls = 2\nmax_reprompts = 2\n")
	loaded, err := Load(LoadOptions{
		Path: path,
		Environ: []string{"EVERTURN_RUNTIME_MAX_TOOL_CALLS=3", "EVERTURN_RUNTIME_MAX_REPROMPTS=3",
			"EVERTURN_POLICY_DENY=local/a, mcp/b/*", "EVERTURN_TENANT=acme"},
		Overrides: map[string]string{"runtime.max_reprompts": "4", "runtime.turn_timeout": "2m", "llm.temperature": "0"},
	})
	require.NoError(t, err)
	r := loaded.Config.Runtime
	assert.Equal(t, []int{2, 3, 4, 2}, []int{r.MaxSteps, r.MaxToolCalls, r.MaxReprompts, r.MaxConsecutiveErrors})
	assert.Equal(t, 2*time.Minute, r.TurnTimeout)
	assert.Equal(t, "acme", loaded.Config.Tenant)
	assert.Equal(t, []string{"local/a", "mcp/b/*"}, loaded.Config.Policy.Deny)
	assert.Zero(t, *loaded.Config.LLM.Temperature)
	assert.Equal(t, path+":2", loaded.Origin("runtime.max_steps"))
	assert.Equal(t, "environment EVERTURN_RUNTIME_MAX_TOOL_CALLS", loaded.Origin("runtime.max_tool_calls"))
	assert.Equal(t, "command line (runtime.max_reprompts)", loaded.Origin("runtime.max_reprompts"))
	assert.Equal(t, "default", loaded.Origin("policy.taint"))
}

func TestBadEnvironmentAndCommandLine(t *testing.T) {
	got := refused(t, LoadOptions{
		Environ: []string{
			"EVERTURN_RUNTIME_MAX_STEPS=many", "EVERTURN_RUNTIME_MAX_STEP=3", "EVERTURN_POLICY_TAINT=strikt",
			"EVERTURN_SOMETHING_ELSE=1", "EVERTURN_WORKER_DRAIN_TIMEOUT=",
		},
		Overrides: map[string]string{"llm.modle": "x", "runtime.max_cost_usd": "NaN"},
	}, "")
	assert.Equal(t, `environment EVERTURN_RUNTIME_MAX_STEPS: runtime.max_steps is "many"; it must be an integer
environment EVERTURN_RUNTIME_MAX_STEP: no key of agent.toml has this variable; did you mean EVERTURN_RUNTIME_MAX_STEPS?
command line: unknown key "llm.modle"; did you mean llm.model?
command line (runtime.max_cost_usd): runtime.max_cost_usd is "NaN"; it must be a number
environment EVERTURN_POLICY_TAINT: policy.taint is "strikt"; it must be one of on, off, strict; did you mean strict?`, got)
}

func TestInterpolation(t *testing.T) {
	loaded, err := Load(LoadOptions{
		Path: write(t, `
[llm]
model = "${FAMILY}-${SIZE:-mini}$${x}"
base_url = "http://${EMPTY:-localhost}:1/v1"
idle_timeout = "${IDLE:-7s}"
[runtime]
system_prompt = "a${EMPTY}b"
`),
		Environ: []string{"FAMILY=gpt", "EMPTY="},
	})
	require.NoError(t, err)
	assert.Equal(t, "gpt-mini${x}", loaded.Config.LLM.Model)
	assert.Equal(t, "http://localhost:1/v1", loaded.Config.LLM.BaseURL)
	assert.Equal(t, 7*time.Second, loaded.Config.LLM.IdleTimeout)
	assert.Equal(t, "ab", loaded.Config.Runtime.SystemPrompt)
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
	want := Default()
	want.addSource(DefaultPath)
	assert.Equal(t, want, loaded.Config)
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
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("#\n", maxFileBytes/2+1)), 0o600))
	_, err := Load(LoadOptions{Path: path})
	assert.ErrorContains(t, err, "larger than 1048576 bytes")
}

// TestHostileFilesHaveShortErrors also ends only if no file takes quadratic time.
func TestHostileFilesHaveShortErrors(t *testing.T) {
	for name, text := range map[string]string{
		"very many references": "[llm]\nmodel = '" + strings.Repeat("${A}", 1<<17) + "'\n",
		"a very deep key":      strings.Repeat("a.", 1<<16) + "b = 1\n",
		"a very long key":      strings.Repeat("a", 1<<19) + " = 1\n",
		"very many servers":    strings.Repeat("[[mcp.servers]]\n", 1<<14),
		"very deep lists":      "a = " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "\n",
		"a long table":         "[" + strings.Repeat("a", 1<<18) + "]\n" + keys(1<<12),
	} {
		assert.Less(t, len(refused(t, LoadOptions{}, text)), maxProblems*3000, name)
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
	err = loaded.Config.CheckCredentials()
	require.ErrorIs(t, err, ErrCredentials)
	assert.False(t, errors.Is(err, ErrInvalid))
	assert.ErrorContains(t, err, "OPENAI_API_KEY")

	_, err = Load(LoadOptions{Path: write(t, "[llm]\napi_key = \"${NOT_SET}\"\n")})
	require.ErrorIs(t, err, ErrCredentials)
	_, err = Load(LoadOptions{Path: write(t, "[llm]\napi_key = \"${NOT_SET}\"\nmax_output_tokens = -1\n")})
	require.ErrorIs(t, err, ErrInvalid)
}
