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
	c := newConsole(t)
	assert.Equal(t, app.ExitAnswered, c.run(t))
	assert.Contains(t, c.out.String(), "Talk:")
	assert.Contains(t, c.out.String(), "everturn run --dev")
	assert.NotContains(t, c.out.String(), "dev-server", "the supervisor is nobody's command")
	assert.Empty(t, c.err.String())
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

// TestEverySessionIsAFlagAndAnArgument checks that each command that takes a session takes it with -s, and as an
// argument unless the arguments are the message.
func TestEverySessionIsAFlagAndAnArgument(t *testing.T) {
	commands := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		flag, argument := cmd.Flags().ShorthandLookup("s"), strings.Contains(cmd.Use, "session")
		assert.False(t, argument && flag == nil, cmd.Use)
		if flag != nil && !argument {
			assert.Contains(t, []string{"run [message...]", "create <name> [message...]"}, cmd.Use)
		}
		if argument {
			commands++
		}
	}
	visit(command(&app.App{}))
	assert.Greater(t, commands, 18)
}

func TestCompletionScripts(t *testing.T) {
	c := newConsole(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		assert.Equal(t, app.ExitAnswered, c.run(t, "completion", shell))
		assert.Contains(t, c.out.String(), "everturn", shell)
	}
	assert.Equal(t, app.ExitAnswered, c.run(t, "__complete", "sh"))
	assert.Contains(t, c.out.String(), "show\t")
}

func TestNoTemporalIsSaidClearly(t *testing.T) {
	c := newConsole(t)
	assert.Equal(t, app.ExitUnreachable, c.run(t, "run", "--set", "temporal.address=127.0.0.1:1", "hi"))
	assert.Contains(t, c.err.String(), "no Temporal answers at 127.0.0.1:1: start one with")
	assert.NoFileExists(t, ".everturn/journal.db")
	assert.Equal(t, app.ExitConfig, c.run(t, "run", "--set", "temporal.address=example.com:7233", "hi"))
	assert.Contains(t, c.err.String(), "TEMPORAL_TLS=true")
}

func TestDevRefusesAServerElsewhereAndAMissingKey(t *testing.T) {
	c := newConsole(t)
	c.environ = append(c.environ, "TEMPORAL_TLS=true")
	assert.Equal(t, app.ExitConfig, c.run(t, "run", "--dev", "--set", "temporal.address=example.com:7233", "hi"))
	assert.Contains(t, c.err.String(), "--dev never uses a Temporal that is not on this machine")
	assert.Equal(t, app.ExitCredentials, c.run(t, "run", "--dev", "--set", "llm.provider=openai", "hi"))
	assert.Contains(t, c.err.String(), "OPENAI_API_KEY")
}

func TestASignalEndsACommandThatWaits(t *testing.T) {
	c := newConsole(t)
	c.in = stdio.Pipe(t, "half a prompt", false)
	c.signals <- os.Interrupt
	assert.Equal(t, app.ExitCancelled, c.run(t, "run", "-"))
	assert.Equal(t, "everturn: interrupted\n", c.err.String())
}

func TestCompletionWritesNothing(t *testing.T) {
	c := newConsole(t)
	assert.Equal(t, app.ExitAnswered, c.run(t, "__complete", "attach", ""))
	assert.Equal(t, app.ExitAnswered, c.run(t, "__complete", "approve", "s", ""))
	assert.Equal(t, app.ExitAnswered, c.run(t, "__complete", "run", "--set", "no=such", "-s", ""))
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestManualPages(t *testing.T) {
	c := newConsole(t)
	c.environ = []string{"SOURCE_DATE_EPOCH=0"}
	assert.Equal(t, app.ExitAnswered, c.run(t, "man", "here"))
	b, err := os.ReadFile(filepath.Join("here", "everturn-approve.1"))
	require.NoError(t, err)
	assert.Contains(t, string(b), "Jan 1970")
	assert.Contains(t, string(b), "--hash")
	c.run(t, "man", "again")
	again, err := os.ReadFile(filepath.Join("again", "everturn-approve.1"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(b, again), "they are the same each time")
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	assert.Equal(t, app.ExitConfig, c.run(t, "man", "file"))
}
