package terminal_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/starter/terminal"
)

func TestVisibleHidesNothing(t *testing.T) {
	for in, want := range map[string]string{
		`{"path":"a.txt"}`:            `{"path":"a.txt"}`,
		"\x1b[2J\x1b]0;t\x07":         `\x1b[2J\x1b]0;t\x07`,
		"two\nlines\tand\r":           "two\nlines" + `\tand\x0d`,
		"a\u202eb\u200bc\u2066":       `a\u202eb\u200bc\u2066`,
		"\u009b31m\x7f":               `\u009b31m\x7f`,
		"broken \xff byte":            `broken \xff byte`,
		"a real \ufffd":               "a real \ufffd",
		"tag \U000e0041":              `tag \U000e0041`,
		"no\u00a0break, blank \u3164": `no\u00a0break, blank \u3164`,
		"Grüße, 世界, 🙂":                "Grüße, 世界, 🙂",
	} {
		assert.Equal(t, want, terminal.Visible(in))
	}
}

func TestPrintableLeavesTextOnly(t *testing.T) {
	assert.Equal(t, "[2Jone\n\ttwo]52;c;aGk=", terminal.Printable("\x1b[2Jo\u202ene\n\ttwo\x1b]52;c;aGk=\x07"))
	assert.Equal(t, "one two", terminal.Line("one\n\t two\x1b", 10))
	assert.Equal(t, "one…", terminal.Line("one two", 4))
}

func TestRowsFitAndLoseNothing(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    []string
	}{
		{"", 4, []string{""}},
		{"abcd", 4, []string{"abcd"}},
		{"abcde f\n\ng", 4, []string{"abcd", "e f", "", "g"}},
		{"世界世", 4, []string{"世界", "世"}},
		{"世界", 1, []string{"世", "界"}},
		{"│ → …x", 5, []string{"│ → …", "x"}},
		{"long", 0, []string{"long"}},
	} {
		assert.Equal(t, c.want, terminal.Rows(c.text, c.columns))
	}
	assert.Equal(t, "abc", terminal.Fit("abc", 3))
	assert.Equal(t, "ab…", terminal.Fit("abcd", 3))
	assert.Equal(t, "abcd", terminal.Fit("abcd", 0))
}

func TestSizesAndHeadwayInWords(t *testing.T) {
	assert.Equal(t, "[image/png, 34 KB]", terminal.Media("image/\x1bpng", 34_200))
	for n, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 1000: "1 KB", 2_500_000: "2 MB", 3_000_000_000: "3 GB"} {
		assert.Equal(t, want, terminal.Bytes(n))
	}
	assert.Equal(t, "50% (1 of 2) half done", terminal.Headway(1, 2, "half\u00a0done"))
	assert.Equal(t, "0% (-1 of 2)", terminal.Headway(-1, 2, ""))
	assert.Equal(t, "1e+09", terminal.Headway(1e9, 0, ""))
}
