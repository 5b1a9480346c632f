package app

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrintableTakesOutWhatMovesATerminal(t *testing.T) {
	for name, c := range map[string]struct{ in, out string }{
		"text":               {"Grüße, 世界 👩‍🚀\n\tand more", "Grüße, 世界 👩‍🚀\n\tand more"},
		"colour":             {"\x1b[31mred\x1b[0m", "[31mred[0m"},
		"cursor":             {"a\x1b[2Ab\rc\bd\ve\ff", "a[2Abcdef"},
		"title":              {"\x1b]0;owned\x07x", "]0;ownedx"},
		"clipboard":          {"\x1b]52;c;aGk=\x1b\\x", `]52;c;aGk=\x`},
		"C1 control":         {"a\u009b31mb\u009d0;t\u009cc", "a31mb0;tc"},
		"C1 as a byte":       {"a\x9b31mb", "a\uFFFD31mb"},
		"delete and null":    {"a\x7fb\x00c", "abc"},
		"direction override": {"a\u202egnp.exe\u202c\u2066b\u2069\u200f\u061c", "agnp.exeb"},
		"half a character":   {"a\xe4\xb8", "a\uFFFD"},
		"line ends":          {"a\r\nb", "a\nb"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.out, Printable(c.in)) })
	}
}

func TestLineIsOneShortLine(t *testing.T) {
	assert.Equal(t, "a b c", Line(" a\r\n b\t\tc\n", 10))
	assert.Equal(t, "wört…", Line("wörterbuch", 5))
	assert.Equal(t, "exact", Line("exact", 5))
	assert.Equal(t, "[2Ja", Line("\x1b[2Ja", 5))
	assert.Empty(t, Line("\x00\x1b", 5))
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[2J", "\u009d0;t\a", "a\xffb", "\u202e\u2066", "\r\n\t",
		"\x1b\x1b]52;c;\x07"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, at int) {
		p := Printable(s)
		require.True(t, utf8.ValidString(p))
		require.Equal(t, p, Printable(p), "cleaning twice changes something")
		for _, r := range p {
			if r != '\n' && r != '\t' {
				require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r), "%U is left", r)
			}
		}
		require.NotContains(t, Line(s, 20), "\n")
		require.LessOrEqual(t, utf8.RuneCountInString(Line(s, 20)), 20)
		if valid := strings.ToValidUTF8(s, ""); at >= 0 && at <= len(valid) && utf8.ValidString(valid[:at]) {
			require.Equal(t, Printable(valid), Printable(valid[:at])+Printable(valid[at:]), "a stream differs from the whole")
		}
	})
}

func TestJSONIsSafeOnATerminalAndLosesNothing(t *testing.T) {
	in := "a\x1b[31m\u009b2J\x7f\u202e\u2028\nü<&>👩‍🚀\u17b4\U000e0041"
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, map[string]string{"text": in}))
	text, ok := strings.CutSuffix(out.String(), "\n")
	require.True(t, ok)
	assert.False(t, strings.ContainsFunc(text, Unseen), "%q", text)
	var back map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, in, back["text"])
}
