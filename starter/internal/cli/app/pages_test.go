package app

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/stdio"
)

func TestPagesLeaveNothingOutAndFitTheScreen(t *testing.T) {
	a := &App{Streams: Streams{Err: stdio.Terminal(t)}} // a terminal that does not tell its size: 80 columns, 24 rows
	text := strings.Repeat(strings.Repeat("x", 100)+"\n", 50) + "the end"
	p := a.PagesOf(text)
	var all []string
	for left := p.Left(); left > 0; left = p.Left() {
		rows := strings.Split(p.Next(), "\n")
		assert.LessOrEqual(t, len(rows), 22)
		for _, r := range rows {
			assert.LessOrEqual(t, len(r), 80)
		}
		all = append(all, rows...)
	}
	assert.Len(t, all, 101)
	assert.Equal(t, strings.ReplaceAll(text, "\n", ""), strings.Join(all, ""))
	assert.Equal(t, "-- 1 row more; Enter shows them, [n]o: ", (&Pages{rows: []string{"x"}}).Prompt())
}

func TestALineThatIsTyped(t *testing.T) {
	f := stdio.File(t, "first\nsecond")
	line, err := readLine(f)
	require.NoError(t, err)
	assert.Equal(t, "first", line)
	_, err = readLine(f)
	assert.Error(t, err, "a line without an end was not meant")
	_, err = readLine(stdio.File(t, strings.Repeat("x", maxLine+1)))
	assert.ErrorContains(t, err, "too long")
}
