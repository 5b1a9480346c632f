package app

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/stdio"
)

func someRows() [][]string {
	return [][]string{{"one", "failed", strings.Repeat("many words ", 20)}, {"世界", "idle", "few"}}
}

func TestTablesFitATerminalAndShowStatesInColour(t *testing.T) {
	near, far := stdio.Pseudoterminal(t)
	defer near.Close()
	require.NoError(t, (&App{Streams: Streams{Out: far}, Color: ColorAuto}).Table([]string{"NAME", "STATE", "TEXT"},
		someRows()))
	lines := bufio.NewScanner(near)
	for _, want := range []string{"NAME  STATE   TEXT", "one   failed  many words", "世界  idle    few"} {
		require.True(t, lines.Scan())
		assert.Contains(t, ansi.Strip(lines.Text()), want)
		assert.LessOrEqual(t, ansi.StringWidth(lines.Text()), 80)
		assert.Equal(t, strings.Contains(want, "failed"), strings.Contains(lines.Text(), "\x1b[31mfailed"))
	}
}

func TestTablesForProgramsArePlainAndWhole(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, (&App{Streams: Streams{Out: &out}, Color: ColorAuto}).Table([]string{"NAME", "STATE", "TEXT"},
		someRows()))
	assert.Equal(t, "NAME  STATE   TEXT\none   failed  "+strings.TrimSpace(strings.Repeat("many words ", 20))+
		"\n世界  idle    few\n", out.String())
}
