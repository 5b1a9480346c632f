package app

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/stdio"
	"github.com/everturn/everturn/workflows/turn"
)

func TestMessagesSpellCommandsAsTheUserStartedTheProgram(t *testing.T) {
	const text = "look with `everturn show`, or\n  everturn attach s\na everturn is no command"
	for name, c := range map[string]struct {
		app  App
		want string
	}{
		"a binary": {App{Program: ProgramName("/usr/bin/et")},
			"look with `et show`, or\n  et attach s\na everturn is no command"},
		"go run": {App{Program: ProgramName("/tmp/go-build1/b001/exe/starter")},
			"look with `go run ./starter show`, or\n  go run ./starter attach s\na everturn is no command"},
		"a tenant": {App{Program: "everturn", Overrides: map[string]string{"tenant": "acme"}},
			"look with `everturn --tenant acme show`, or\n  everturn --tenant acme attach s\na everturn is no command"},
		"a setting": {App{Program: "everturn", ConfigPath: "my agent.toml"}, "look with `everturn --config 'my agent.toml' " +
			"show`, or\n  everturn --config 'my agent.toml' attach s\na everturn is no command"},
	} {
		assert.Equal(t, c.want, c.app.WithTypedCommands(text), name)
	}
}

func TestListsAreAnArrayOrALineForEachElement(t *testing.T) {
	var out bytes.Buffer
	for output, want := range map[string]string{OutputJSON: "[1,2]\n", OutputJSONL: "1\n2\n", OutputText: ""} {
		out.Reset()
		require.NoError(t, PrintList(&out, output, []int{1, 2}, func() error { return nil }))
		assert.Equal(t, want, out.String(), output)
	}
	out.Reset()
	require.NoError(t, PrintList[int](&out, OutputJSON, nil, nil))
	assert.Equal(t, "[]\n", out.String(), "an empty list is not null")
}

func TestWordsForAShell(t *testing.T) {
	for in, want := range map[string]string{
		"s-k2j3": "s-k2j3", "a b": "'a b'", "": "''", "-x": "'-x'", "$(rm)": "'$(rm)'", "it's": `'it'\''s'`,
		"grün": "'grün'",
	} {
		assert.Equal(t, want, Quoted(in))
	}
}

func TestDecisions(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	for want, r := range map[string]turn.Decision{
		"allowed by ann@home, and every later call of this tool (2026-11-21 12:00:00)": {Status: turn.StatusAllowed,
			Allowed: true, By: "ann@home", Grant: turn.GrantTool},
		"denied by [2Jann: no (2026-11-21 12:00:00)": {Status: turn.StatusDenied,
			By: "\x1b[2Jann", Reason: "no\u009b"},
		"expired, and allowed by the configuration (2026-11-21 12:00:00)": {Status: turn.StatusExpired,
			Allowed: true},
		"answered (2026-11-21 12:00:00)": {Status: turn.StatusAnswered},
	} {
		r.At = at
		assert.Equal(t, want, DecidedAt(r))
	}
}

func TestColours(t *testing.T) {
	tty := stdio.Terminal(t)
	for name, c := range map[string]struct {
		flag    string
		environ []string
		w       *os.File
		want    bool
	}{
		"a terminal":                     {ColorAuto, nil, tty, true},
		"a file":                         {ColorAuto, nil, stdio.File(t, ""), false},
		"NO_COLOR":                       {ColorAuto, []string{"NO_COLOR=1"}, tty, false},
		"an empty NO_COLOR does not say": {ColorAuto, []string{"NO_COLOR="}, tty, true},
		"CLICOLOR":                       {ColorAuto, []string{"CLICOLOR=0"}, tty, false},
		"CLICOLOR_FORCE":                 {ColorAuto, []string{"CLICOLOR_FORCE=1"}, stdio.File(t, ""), true},
		"NO_COLOR outweighs force":       {ColorAuto, []string{"CLICOLOR_FORCE=1", "NO_COLOR=1"}, tty, false},
		"a dumb terminal":                {ColorAuto, []string{"TERM=dumb"}, tty, false},
		"always":                         {ColorAlways, []string{"NO_COLOR=1"}, stdio.File(t, ""), true},
		"never":                          {ColorNever, []string{"CLICOLOR_FORCE=1"}, tty, false},
	} {
		assert.Equal(t, c.want, (&App{Color: c.flag, Environ: c.environ}).Colored(c.w), name)
	}
}
