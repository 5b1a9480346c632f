package app

import (
	"bufio"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/stdio"
)

func TestWhereThePromptComesFrom(t *testing.T) {
	closed := stdio.File(t, "x")
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		in   *os.File
		args []string
		want string
	}{
		"arguments":                         {nil, []string{"which", "files"}, "which files"},
		"arguments beside a pipe":           {stdio.Pipe(t, "a diff\n", true), []string{"review", "it"}, "review it\n\na diff\n"},
		"arguments beside a file":           {stdio.File(t, "a diff\n"), []string{"review"}, "review\n\na diff\n"},
		"arguments beside an empty pipe":    {stdio.Pipe(t, "\n", true), []string{"review"}, "review"},
		"arguments beside a terminal":       {stdio.Terminal(t), []string{"review"}, "review"},
		"arguments beside /dev/null":        {stdio.Open(t, os.DevNull), []string{"review"}, "review"},
		"arguments beside a closed one":     {closed, []string{"review"}, "review"},
		"nothing beside a file":             {stdio.File(t, "from the file\n"), nil, "from the file\n"},
		"nothing beside a pipe":             {stdio.Pipe(t, "from the pipe", true), nil, "from the pipe"},
		"a dash and a pipe":                 {stdio.Pipe(t, "from the pipe", true), []string{"-"}, "from the pipe"},
		"a dash behind words":               {stdio.Pipe(t, "a diff", true), []string{"review:", "-"}, "review:\n\na diff"},
		"a dash before words":               {stdio.Pipe(t, "a diff\n", true), []string{"-", "review", "it"}, "a diff\n\n\nreview it"},
		"nothing beside /dev/null":          {stdio.Open(t, os.DevNull), nil, ""},
		"a dash and /dev/null":              {stdio.Open(t, os.DevNull), []string{"-"}, ""},
		"nothing beside a closed one":       {closed, nil, ""},
		"nothing at all":                    {nil, nil, ""},
		"an empty word beside an open pipe": {stdio.Pipe(t, "", false), []string{""}, ""},
		"blanks":                            {nil, []string{"  ", "\n"}, ""},
		"an empty pipe":                     {stdio.Pipe(t, "", true), nil, ""},
		"nothing beside a terminal":         {stdio.Terminal(t), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &App{Streams: Streams{In: c.in}}
			text, err := a.Prompt(t.Context(), c.args)
			if c.want == "" {
				assert.Equal(t, ExitConfig, ExitCode(err))
				assert.ErrorContains(t, err, "everturn run", "it says what to do")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, text)
		})
	}
}

func TestTwoDashesAreAnError(t *testing.T) {
	_, err := (&App{Streams: Streams{In: stdio.File(t, "x")}}).Prompt(t.Context(), []string{"-", "and", "-"})
	assert.Equal(t, ExitConfig, ExitCode(err))
}

// TestASilentPipeIsNamed lets a pipe be silent until the command has said that it waits for it.
func TestASilentPipeIsNamed(t *testing.T) {
	t.Parallel()
	in, writer, err := os.Pipe()
	require.NoError(t, err)
	notes, err2, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { in.Close(); writer.Close(); notes.Close(); err2.Close() })
	go func() {
		note, err := bufio.NewReader(notes).ReadString('\n')
		if assert.NoError(t, err) {
			assert.Contains(t, note, "standard input")
		}
		_, _ = writer.WriteString("a diff") // a failure is a prompt without it
		writer.Close()
	}()
	text, err := (&App{Streams: Streams{In: in, Err: err2}}).Prompt(t.Context(), []string{"review"})
	require.NoError(t, err)
	assert.Equal(t, "review\n\na diff", text)
}

func TestADashWithAClosedStandardInputIsAnError(t *testing.T) {
	closed := stdio.File(t, "x")
	require.NoError(t, closed.Close())
	_, err := (&App{Streams: Streams{In: closed}}).Prompt(t.Context(), []string{"-"})
	assert.ErrorContains(t, err, "reading the message from standard input")
	assert.Equal(t, ExitConfig, ExitCode(err))
}

func TestAPromptIsBounded(t *testing.T) {
	_, err := (&App{Streams: Streams{In: stdio.File(t, strings.Repeat("x", maxPrompt+1))}}).Prompt(t.Context(), nil)
	assert.ErrorContains(t, err, "8 MiB")
	assert.Equal(t, ExitConfig, ExitCode(err))
}

func TestAPromptIsText(t *testing.T) {
	for name, content := range map[string]string{"another encoding": "gr\xfcn", "a null byte": "\x7fELF\x00"} {
		_, err := (&App{Streams: Streams{In: stdio.File(t, content)}}).Prompt(t.Context(), []string{"-"})
		assert.Equal(t, ExitConfig, ExitCode(err), name)
		assert.ErrorContains(t, err, "UTF-8", name)
	}
}

func TestASignalEndsReadingThePrompt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrInterrupted)
	_, err := (&App{Streams: Streams{In: stdio.Pipe(t, "half", false)}}).Prompt(ctx, []string{"-"})
	assert.ErrorIs(t, err, ErrInterrupted)
}
