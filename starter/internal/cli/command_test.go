package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/tests/stdio"
)

func TestWithoutACommandThereIsHelp(t *testing.T) {
	c := NewConsole(t)
	assert.Equal(t, app.ExitAnswered, c.run(t))
	assert.Contains(t, c.out.String(), "Talk:")
	assert.Contains(t, c.out.String(), "starter run --dev")
	assert.NotContains(t, c.out.String(), "dev-server", "the supervisor is nobody's command")
	assert.Empty(t, c.err.String())
}

// mistakes are command lines that cannot be meant, and what is said about each.
var mistakes = []struct {
	args []string
	hint string
}{
	{[]string{"rnu"}, "did you mean `starter run`?"},
	{[]string{"sho"}, "did you mean `starter show`?"},
	{[]string{"frobnicate"}, "see `starter --help`"},
	{[]string{"config", "shwo"}, "did you mean `starter config show`?"},
	{[]string{"run", "--sesion", "x"}, "did you mean --session?"},
	{[]string{"run", "--frobnicate"}, "see `starter run --help`"},
	{[]string{"run", "-Z"}, "see `starter run --help`"},
	{[]string{"run", "--max-steps", "many"}, "see `starter run --help`"},
	{[]string{"run", "--set", "x", "hi"}, "key=value"},
	{[]string{"run", "--set", "runtime.max_stps=1", "hi"}, "runtime.max_steps"},
	{[]string{"list", "x"}, `unknown command "x"`},
	{[]string{"import"}, "accepts 1 arg"},
	{[]string{"fork", "s", "--at", "x"}, "--at is \"x\", which is not a whole number"},
	{[]string{"diff", "d2"}, "received 1: use `starter diff <session> <session> [flags]` (see `starter diff --help`)"},
	{[]string{"attach", "--wait", "s"}, "unknown flag"},
	{[]string{"--color", "red", "list"}, "auto, always or never"},
	{[]string{"run", "--config", "no.toml", "hi"}, "no.toml"},
	{[]string{"run", "-o", "xml", "hi"}, "text, json, jsonl or none"},
	{[]string{"attach", "-o", "xml"}, "text, json, jsonl or none"},
	{[]string{"run", "-c", "-s", "x", "hi"}, "use one of them"},
	{[]string{"run", "--detach", "--dev", "hi"}, "starter dev"},
	{[]string{"run", "--detach", "--output-last", "f", "hi"}, "starter attach"},
	{[]string{"run", "--slow", "hi"}, "worker -slow"},
	{[]string{"run", "--exit", "hi"}, "--dev"},
	{[]string{"run", "--message-id", "m", "hi"}, "--session"},
	{[]string{"run", "-s", " x", "hi"}, "session ID"},
	{[]string{"run", "--timeout", "soon", "hi"}, "invalid duration"},
	{[]string{"run", "--timeout", "-1s", "hi"}, "90s"},
	{[]string{"run", "--turn-timeout", "soon", "hi"}, "90s"},
	{[]string{"run", "--wait", "--no-wait", "hi"}, "use one of them"},
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
	{[]string{"approve", "s", "--always", "never"}, "call or tool"},
	{[]string{"deny", "s", "1.0", "--always", "tool"}, "unknown flag"},
	{[]string{"approve", "s", "1.0", "--all"}, "remove 1.0"},
	{[]string{"approve", "s", "--all", "--hash", "12345678"}, "use one of them"},
	{[]string{"approve", "s", "1.0", "1.1", "--hash", "12345678"}, "one call"},
	{[]string{"approvals", "-o", "xml"}, "text, json or jsonl"},
	{[]string{"approve"}, "at least 1 arg"},
	{[]string{"deny"}, "at least 1 arg"},
	{[]string{"approvals"}, "there is no journal"},
	{[]string{"fork"}, "accepts 1 arg"},
	{[]string{"fork", "s", "--at", "0"}, "the first message is number 1"},
	{[]string{"fork", "s", "--as", " x"}, "session ID"},
	{[]string{"rewind", "s"}, "`starter show` numbers the messages"},
	{[]string{"diff", "s"}, "accepts 2 arg"},
	{[]string{"attach", "s"}, "there is no journal"},
	{[]string{"stop"}, "there is no journal"},
	{[]string{"open", "\x1b"}, "cannot be printed"},
	{[]string{"open"}, "there is no journal"},
	{[]string{"man"}, "accepts 1 arg"},
	{[]string{"run", "--max-steps", "-1", "hi"}, "max_steps"},
	{[]string{"dev", "--slow", "--no-worker"}, "worker -slow"},
	{[]string{"run"}, "the message is empty"},
	{[]string{"list"}, "there is no journal at .everturn/journal.db yet"},
	{[]string{"show", "x"}, "there is no journal"},
	{[]string{"import", "no.jsonl"}, "opening the file to import"},
}

func TestMistakesOfTheCommandLineExitWithThreeAndAHint(t *testing.T) {
	c := NewConsole(t)
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

func TestEveryCommandExplainsItself(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "completion" || cmd.Name() == "help" {
			return
		}
		assert.NotEmpty(t, cmd.Short, cmd.CommandPath())
		assert.False(t, strings.HasSuffix(cmd.Short, "."), cmd.CommandPath())
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(command((&app.App{Streams: app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}})))
}

func TestCompletionScripts(t *testing.T) {
	c := NewConsole(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		assert.Equal(t, app.ExitAnswered, c.run(t, "completion", shell))
		assert.Contains(t, c.out.String(), "starter", shell)
	}
	assert.Equal(t, app.ExitAnswered, c.run(t, "__complete", "sh"))
	assert.Contains(t, c.out.String(), "show\t")
}

func TestNoTemporalIsSaidClearly(t *testing.T) {
	c := NewConsole(t)
	assert.Equal(t, app.ExitUnreachable, c.run(t, "run", "--set", "temporal.address=127.0.0.1:1", "hi"))
	assert.Contains(t, c.err.String(), "no Temporal answers at 127.0.0.1:1: start one with")
	assert.NoFileExists(t, ".everturn/journal.db")
	assert.Equal(t, app.ExitConfig, c.run(t, "run", "--set", "temporal.address=example.com:7233", "hi"))
	assert.Contains(t, c.err.String(), "tls = true")
}

func TestDevRefusesAServerElsewhereAndAMissingKey(t *testing.T) {
	c := NewConsole(t)
	assert.Equal(t, app.ExitConfig, c.run(t, "run", "--dev", "--set", "temporal.address=example.com:7233", "--set",
		"temporal.tls=true", "hi"))
	assert.Contains(t, c.err.String(), "--dev never uses a Temporal that is not on this machine")
	assert.Equal(t, app.ExitCredentials, c.run(t, "run", "--dev", "--set", "llm.provider=openai", "hi"))
	assert.Contains(t, c.err.String(), "OPENAI_API_KEY")
}

func TestASignalEndsACommandThatWaits(t *testing.T) {
	c := NewConsole(t)
	c.in = stdio.Pipe(t, "half a prompt", false)
	c.signals <- os.Interrupt
	assert.Equal(t, app.ExitCancelled, c.run(t, "run", "-"))
	assert.Equal(t, "everturn: interrupted\n", c.err.String())
}

func TestCompletionWritesNothing(t *testing.T) {
	c := NewConsole(t)
	assert.Equal(t, app.ExitAnswered, c.run(t, "__complete", "attach", ""))
	assert.Equal(t, app.ExitAnswered, c.run(t, "__complete", "approve", "s", ""))
	assert.Equal(t, app.ExitAnswered, c.run(t, "__complete", "run", "--set", "no=such", "-s", ""))
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestManualPages(t *testing.T) {
	c := NewConsole(t)
	c.environ = []string{"SOURCE_DATE_EPOCH=0"}
	assert.Equal(t, app.ExitAnswered, c.run(t, "man", "here"))
	b, err := os.ReadFile(filepath.Join("here", "starter-approve.1"))
	require.NoError(t, err)
	assert.Contains(t, string(b), "Jan 1970")
	assert.Contains(t, string(b), "--hash")
	c.run(t, "man", "again")
	again, err := os.ReadFile(filepath.Join("again", "starter-approve.1"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(b, again), "they are the same each time")
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	assert.Equal(t, app.ExitConfig, c.run(t, "man", "file"))
}
