package app

import (
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
		"arguments beside an open pipe":     {stdio.Pipe(t, "", false), []string{"which"}, "which"},
		"arguments beside a file":           {stdio.File(t, "from the file"), []string{"which"}, "which"},
		"nothing beside a file":             {stdio.File(t, "from the file\n"), nil, "from the file\n"},
		"nothing beside a pipe":             {stdio.Pipe(t, "from the pipe", true), nil, "from the pipe"},
		"a dash and a pipe":                 {stdio.Pipe(t, "from the pipe", true), []string{"-"}, "from the pipe"},
		"a dash among words is a word":      {stdio.Pipe(t, "", false), []string{"a", "-"}, "a -"},
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
