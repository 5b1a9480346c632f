package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/tests/stdio"
)

// mistakes are command lines that cannot be meant, and what the error says about each.
var mistakes = []struct {
	args []string
	hint string
}{
	{[]string{"rnu"}, "did you mean `everturn run`?"},
	{[]string{"sho"}, "did you mean `everturn show`?"},
	{[]string{"frobnicate"}, "see `everturn --help`"},
	{[]string{"completion", "fish2"}, "did you mean `everturn completion fish`?"},
	{[]string{"completion", "tcsh"}, "see `everturn completion --help`"},
	{[]string{"config", "shwo"}, "did you mean `everturn config show`?"},
	{[]string{"run", "--sesion", "x"}, "did you mean --session?"},
	{[]string{"run", "--frobnicate"}, "see `everturn run --help`"},
	{[]string{"run", "-Z"}, "see `everturn run --help`"},
	{[]string{"run", "--max-steps", "many"}, "see `everturn run --help`"},
	{[]string{"run", "--set", "x", "hi"}, "key=value"},
	{[]string{"run", "--set", "runtime.max_stps=1", "hi"}, "runtime.max_steps"},
	{[]string{"list", "x"}, `unknown command "x"`},
	{[]string{"import"}, "accepts 1 arg"},
	{[]string{"fork", "s", "--at", "x"}, "--at is \"x\", which is not a whole number"},
	{[]string{"diff", "d2"}, "received 1: use `everturn diff <session> <session> [flags]` (see `everturn diff --help`)"},
	{[]string{"attach", "--wait", "s"}, "unknown flag"},
	{[]string{"--color", "red", "list"}, "auto, always or never"},
	{[]string{"run", "--config", "no.toml", "hi"}, "no.toml"},
	{[]string{"run", "-o", "xml", "hi"}, "text, json, jsonl or none"},
	{[]string{"attach", "-o", "xml"}, "text, json, jsonl or none"},
	{[]string{"run", "-c", "-s", "x", "hi"}, "use one of them"},
	{[]string{"run", "--tools", "", "hi"}, "`--tools none`"},
	{[]string{"run", "--detach", "--dev", "hi"}, "everturn dev"},
	{[]string{"run", "--detach", "--output-last", "f", "hi"}, "everturn attach"},
	{[]string{"run", "--slow", "hi"}, "worker --slow"},
	{[]string{"run", "--exit", "hi"}, "--dev"},
	{[]string{"run", "--message-id", "m", "hi"}, "--session"},
	{[]string{"run", "-s", " x", "hi"}, "session ID"},
	{[]string{"run", "--timeout", "soon", "hi"}, "invalid duration"},
	{[]string{"run", "--timeout", "-1s", "hi"}, "90s"},
	{[]string{"run", "--turn-timeout", "soon", "hi"}, "90s"},
	{[]string{"run", "--wait", "--no-wait", "hi"}, "use one of them"},
	{[]string{"show", "-s", "x", "y"}, "given twice"},
	{[]string{"send", "-s", "x", "x", "hi"}, "given twice"},
	{[]string{"answer", "-s", "x", "x", "q1", "Yes."}, "given twice"},
	{[]string{"canvas", "drop", "-s", "x", "y"}, "given twice"},
	{[]string{"chat", "-s", "x", "y"}, "given twice"},
	{[]string{"chat", "-c", "x"}, "use one of them"},
	{[]string{"chat", " x"}, "session ID"},
	{[]string{"stop", "-s", "x", "y", "z"}, "at most 1 arg"},
	{[]string{"fork", "-s", "x", "--at", "0"}, "the first message is number 1"},
	{[]string{"send", "-s", "x"}, "the message is empty"},
	{[]string{"send", "-s", " x", "hi"}, "session ID"},
	{[]string{"run", "-", "-"}, "can only be read once"},
	{[]string{"run", "--fork", "hi"}, "the session to fork"},
	{[]string{"send"}, "at least 1 arg"},
	{[]string{"send", "s"}, "the message is empty"},
	{[]string{"send", " s", "hi"}, "session ID"},
	{[]string{"send", "s", "-o", "xml", "hi"}, "text, json or none"},
	{[]string{"answer"}, "there is no answer: give it as the last argument"},
	{[]string{"answer", "s", "q1"}, "there is no answer"},
	{[]string{"answer", "s", "e1.0.1"}, "there is no answer"},
	{[]string{"answer", "s", "e1.0.1", "x", "y"}, "at most 3 arg"},
	{[]string{"answer", "s", "--accept", "--decline"}, "exclude each other"},
	{[]string{"answer", "s", "e1.0.1", "Ann", "--field", "name=Ann"}, "remove \"Ann\""},
	{[]string{"answer", "s", "q1", ""}, "the message is empty"},
	{[]string{"approve", "--deny"}, "unknown flag"},
	{[]string{"approve", "s", "--always", "never"}, "call, host, command or tool"},
	{[]string{"deny", "s", "1.0", "--always", "tool"}, "unknown flag"},
	{[]string{"approve", "s", "1.0", "--all"}, "remove 1.0"},
	{[]string{"approve", "s", "--all", "--hash", "12345678901234567890123456789012"}, "use one of them"},
	{[]string{"approve", "s", "1.0", "1.1", "--hash", "12345678901234567890123456789012"}, "one call"},
	{[]string{"approvals", "-o", "xml"}, "text, json or jsonl"},
	{[]string{"approve"}, "at least 1 arg"},
	{[]string{"deny"}, "at least 1 arg"},
	{[]string{"approvals"}, "there is no journal"},
	{[]string{"fork"}, "accepts 1 arg"},
	{[]string{"fork", "s", "--at", "0"}, "the first message is number 1"},
	{[]string{"fork", "s", "--as", " x"}, "session ID"},
	{[]string{"rewind", "s"}, "`everturn show` numbers the messages"},
	{[]string{"diff", "s"}, "accepts 2 arg"},
	{[]string{"attach", "s"}, "there is no journal"},
	{[]string{"stop"}, "there is no journal"},
	{[]string{"open", "\x1b"}, "cannot be printed"},
	{[]string{"open"}, "there is no journal"},
	{[]string{"man"}, "accepts 1 arg"},
	{[]string{"run", "--max-steps", "-1", "hi"}, "max_steps"},
	{[]string{"dev", "--slow", "--no-worker"}, "worker --slow"},
	{[]string{"run"}, "the message is empty"},
	{[]string{"tools", "call"}, "accepts 1 arg"},
	{[]string{"tools", "call", "read_file"}, "local/list_files; `everturn tools` lists the tools"},
	{[]string{"tools", "call", "local/read_file", "--args", "[]"}, "--args is not a JSON object: write for example"},
	{[]string{"schedule", "create", "s", "hi"}, "use --every 1h"},
	{[]string{"schedule", "create", "s", "--every", "1s", "hi"}, "use at least 10s"},
	{[]string{"schedule", "create", "s", "--cron", "daily", "hi"}, "use five fields"},
	{[]string{"schedule", "create", "s", "--cron", "@daily", "--zone", "Mars", "hi"}, "use a name such as"},
	{[]string{"schedule", "create", " ", "--every", "1h", "hi"}, "the schedule name"},
	{[]string{"journal", "copy", "no.db", "b.db"}, "there is no journal at no.db"},
	{[]string{"list"}, "there is no journal at .everturn/journal.db yet"},
	{[]string{"show", "x"}, "there is no journal"},
	{[]string{"import", "no.jsonl"}, "opening the file to import"},
}

func TestMistakesOfTheCommandLineExitWithThreeAndAHint(t *testing.T) {
	c := newConsole(t)
	for _, m := range mistakes {
		t.Run(strings.Join(m.args, " "), func(t *testing.T) {
			assert.Equal(t, app.ExitConfig, c.run(t, m.args...))
			assert.True(t, strings.HasPrefix(c.err.String(), "everturn: "), "%s", c.err.String())
			assert.Contains(t, c.err.String(), m.hint)
			assert.Empty(t, c.out.String())
		})
	}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, entries, "a mistake writes nothing")
}

// TestWrongFilesAndSettingsSayWhereAndWhatToDo also checks the error in JSON, which -o json prints on stderr.
func TestWrongFilesAndSettingsSayWhereAndWhatToDo(t *testing.T) {
	const away = "temporal.address=127.0.0.1:1"
	for name, m := range map[string]struct {
		toml, stdin string
		args        []string
		exit        int
		code        string
		says        []string
	}{
		"an unknown key": {"[llm]\nmodle = \"x\"\n", "", []string{"run", "-o", "json", "hi"}, 3, "config_invalid",
			[]string{"agent.toml", "2", "llm.modle", "llm.model"}},
		"no TOML": {"llm = [\n", "", []string{"list", "-o", "json"}, 3, "config_invalid", []string{"agent.toml"}},
		"another type": {"[runtime]\nmax_steps = \"many\"\n", "", []string{"approvals", "-o", "json"}, 3, "config_invalid",
			[]string{"agent.toml", "max_steps"}},
		"no key": {"[llm]\nprovider = \"openai\"\n", "", []string{"run", "--dev", "-o", "jsonl", "hi"}, 4, "credentials",
			[]string{"OPENAI_API_KEY"}},
		"a key that is not set": {"[llm]\nprovider = \"openai\"\napi_key = \"${NO_SUCH_KEY}\"\n", "",
			[]string{"run", "--dev", "-o", "json", "hi"}, 4, "credentials", []string{"NO_SUCH_KEY"}},
		"no Temporal": {"", "", []string{"run", "-o", "json", "--set", away, "hi"}, 5, "unreachable",
			[]string{"no Temporal answers at 127.0.0.1:1", "start one with `everturn dev`", "(dial tcp 127.0.0.1:1: connect: " +
				"connection refused)"}},
		"a binary file on standard input": {"", "\x7fELF\x00", []string{"run", "-o", "json", "-"}, 3, "config_invalid",
			[]string{"standard input", "UTF-8"}},
		"a large file on standard input": {"", strings.Repeat("x", 9<<20), []string{"send", "-o", "json", "s", "-"}, 3,
			"config_invalid", []string{"standard input", "8 MiB"}},
		"no export": {"", "hello\n", []string{"import", "-o", "json", "-"}, 3, "config_invalid",
			[]string{"importing", "nothing was changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.in, c.environ = stdio.File(t, m.stdin), []string{"HOME=" + t.TempDir()}
			require.NoError(t, os.WriteFile("agent.toml", []byte(m.toml), 0o600))
			c.run(t, "trust") // fails for a file that cannot be read
			assert.Equal(t, m.exit, c.run(t, m.args...))
			assert.Empty(t, c.out.String())
			var e struct {
				Error, Message string
				Exit           int
			}
			require.NoError(t, json.Unmarshal(c.err.Bytes(), &e), "%s", c.err.String())
			assert.Equal(t, m.code, e.Error)
			assert.Equal(t, m.exit, e.Exit)
			for _, says := range m.says {
				assert.Contains(t, e.Message, says)
			}
		})
	}
}
