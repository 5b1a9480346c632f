package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// open opens a file for the length of the test.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// file is a file with a content.
func file(t *testing.T, content string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return open(t, path)
}

// pipe is a pipe with a content. Unless closed is set its writer stays open, as one that was inherited does.
func pipe(t *testing.T, content string, closed bool) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, err = w.WriteString(content)
	require.NoError(t, err)
	if closed {
		require.NoError(t, w.Close())
	}
	t.Cleanup(func() { w.Close(); r.Close() })
	return r
}

func TestWhereThePromptComesFrom(t *testing.T) {
	closed := file(t, "x")
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		in   *os.File
		args []string
		want string
	}{
		"arguments":                         {nil, []string{"which", "files"}, "which files"},
		"arguments beside an open pipe":     {pipe(t, "", false), []string{"which"}, "which"},
		"arguments beside a file":           {file(t, "from the file"), []string{"which"}, "which"},
		"nothing beside a file":             {file(t, "from the file\n"), nil, "from the file\n"},
		"nothing beside a pipe":             {pipe(t, "from the pipe", true), nil, "from the pipe"},
		"a dash and a pipe":                 {pipe(t, "from the pipe", true), []string{"-"}, "from the pipe"},
		"a dash among words is a word":      {pipe(t, "", false), []string{"a", "-"}, "a -"},
		"nothing beside /dev/null":          {open(t, os.DevNull), nil, ""},
		"a dash and /dev/null":              {open(t, os.DevNull), []string{"-"}, ""},
		"nothing beside a closed one":       {closed, nil, ""},
		"nothing at all":                    {nil, nil, ""},
		"an empty word beside an open pipe": {pipe(t, "", false), []string{""}, ""},
		"blanks":                            {nil, []string{"  ", "\n"}, ""},
		"an empty pipe":                     {pipe(t, "", true), nil, ""},
		"nothing beside a terminal":         {aTerminal(t), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{streams: streams{in: c.in}}
			text, err := a.prompt(t.Context(), c.args)
			if c.want == "" {
				assert.Equal(t, exitConfig, exitCode(err))
				assert.ErrorContains(t, err, "starter run", "it says what to do")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, text)
		})
	}
}

func TestADashWithAClosedStandardInputIsAnError(t *testing.T) {
	closed := file(t, "x")
	require.NoError(t, closed.Close())
	_, err := (&app{streams: streams{in: closed}}).prompt(t.Context(), []string{"-"})
	assert.ErrorContains(t, err, "reading the message from standard input")
	assert.Equal(t, exitConfig, exitCode(err))
}

func TestAPromptIsBounded(t *testing.T) {
	_, err := (&app{streams: streams{in: file(t, strings.Repeat("x", maxPrompt+1))}}).prompt(t.Context(), nil)
	assert.ErrorContains(t, err, "8 MiB")
}

func TestASignalEndsReadingThePrompt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	_, err := (&app{streams: streams{in: pipe(t, "half", false)}}).prompt(ctx, []string{"-"})
	assert.ErrorIs(t, err, errInterrupted)
}
