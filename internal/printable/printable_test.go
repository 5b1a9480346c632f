package printable_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/internal/printable"
)

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"plain\ttext\n":              "plain\ttext\n",
		"grüße 世界 👩‍👩‍👧":             "grüße 世界 👩‍👩‍👧",
		"a\x00b\x07c\x7fd":           "abcd",
		"\x1b[31mred\x1b[0m":         "red",
		"\x1b]0;title\x07x":          "x",
		"\x1b]8;;http://e\x1b\\link": "link",
		"\x1b(Bx\x1bMy":              "xy",
		"\u009b31mred":               "red",
		"a\u0085b":                   "ab",
		"bad \xff\xfe utf":           "bad \ufffd\ufffd utf",
		"a\r\nb\rc":                  "a\nb\nc",
		"\x1b":                       "",
		"\x1b[":                      "",
		"\x1b]never ends":            "never ends",
		"\x1b\x1b[31mx":              "x",
		"\x1b[31\nm":                 "\nm",
		"cut \x1b" + "é":             "cut é",
	} {
		assert.Equal(t, want, printable.Sanitize(in), "%q", in)
	}
}

func TestCutKeepsBothEnds(t *testing.T) {
	s := "head" + strings.Repeat("é", 1000) + "tail"
	cut, was := printable.Cut(s, 500)
	assert.True(t, was)
	assert.LessOrEqual(t, len(cut), 500)
	assert.True(t, strings.HasPrefix(cut, "headé"))
	assert.True(t, strings.HasSuffix(cut, "étail"))
	assert.Contains(t, cut, "of 2008 bytes left out here")
	assert.True(t, utf8.ValidString(cut))
}

// FuzzSanitize checks that the result has no terminal control sequences, that a second pass changes nothing, that clean
// text stays unchanged, and that a cut respects its limit and ends on a whole character.
func FuzzSanitize(f *testing.F) {
	for _, s := range []string{
		"\x1b[31mred\x1b[0m \xff \u009b", "plain\ttext\n", "\x1b]8;;http://e\x1b\\link", "\x1b]never ends", "\x1b\x1b[31mx",
		"\x1b[\x1b[2J2J", "\r\r\n\r", "\u009d0;t\u009cx", "\x1bP" + strings.Repeat("a", 5000), "\xc2", "e\u0301\u202e",
	} {
		f.Add(s, 100)
		f.Add(strings.Repeat(s, 60), 500)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		clean := printable.Sanitize(s)
		assert.True(t, utf8.ValidString(clean))
		control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }
		assert.Negative(t, strings.IndexFunc(clean, control), "%q", clean)
		assert.Equal(t, clean, printable.Sanitize(clean))
		if utf8.ValidString(s) && strings.IndexFunc(s, control) < 0 {
			assert.Equal(t, s, clean)
		}
		limit %= 1 << 12
		cut, was := printable.Cut(clean, limit)
		assert.LessOrEqual(t, len(cut), max(limit, 0))
		assert.True(t, utf8.ValidString(cut))
		assert.Equal(t, len(clean) > limit, was)
		if was && limit >= 200 {
			assert.True(t, strings.HasPrefix(clean, cut[:limit/4-3]), "a cut keeps the head")
		}
	})
}
