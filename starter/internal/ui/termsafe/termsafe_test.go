package termsafe_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/internal/invisible"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
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

		"pay 100\u17b4\u17b5\u034f\ufe0f.":   `pay 100\u17b4\u17b5\u034f\ufe0f.`,
		"\u2800\ufffc\u00ad\u115f\U000e0100": `\u2800\ufffc\u00ad\u115f\U000e0100`,
		"e\u0301, \u0e19\u0e49\u0e33":        "e\u0301, \u0e19\u0e49\u0e33",
		"\u0301 1\u0301 \"\u0301":            `\u0301 1` + "\u0301" + ` "\u0301`,
		"a\u200b\u0301":                      `a\u200b\u0301`,
		"e" + strings.Repeat("\u0301", 6):    "e" + strings.Repeat("\u0301", 4) + `\u0301\u0301`,

		strings.Repeat("\u0d4e", 10) + ";x":         strings.Repeat("\u0d4e", 8) + `\u0d4e\u0d4e;x`,
		strings.Repeat("\u1100", 10):                strings.Repeat("\u1100", 8) + `\u1100\u1100`,
		"👍" + strings.Repeat("\U0001f3fd", 9) + "x": "👍" + strings.Repeat("\U0001f3fd", 7) + `\U0001f3fd\U0001f3fdx`,
		"लक्ष्म्या 한국어 👍🏽":                          "लक्ष्म्या 한국어 👍🏽",
	} {
		assert.Equal(t, want, termsafe.Visible(in))
	}
}

// A terminal draws all of these in no cell, or in the cell of another character. Visible must not leave any of them.
func TestVisibleWritesOutWhatHasNoInk(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		ignorable := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Variation_Selector)
		if ignorable || unicode.Is(unicode.Zs, r) || unicode.Is(unicode.M, r) { // a mark has nothing to stand on here
			assert.NotContains(t, termsafe.Visible("."+string(r)+"."), string(r), "%U", r)
		}
	}
}

// Clusters have rules of their own for each of these kinds of characters, and escapes join or part their neighbours.
func TestVisibleBoundsGraphemeClusters(t *testing.T) {
	kinds := []rune("ae1;\\\u0301\u0d4e\U000111c2\u0600\u1100\u1161\u11a8\uac00\u0915\u094d\u093e\u200d\ufe0f\u20e3\U0001f1e6" +
		"\U0001f44d\U0001f3fd\U000e0061\u200b")
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text []rune
		for range 1 + random.IntN(6) {
			text = append(text, slices.Repeat(kinds[random.IntN(len(kinds)):][:1], 1+random.IntN(12))...)
		}
		shown := termsafe.Visible(string(text))
		for rest := shown; rest != ""; {
			cluster, _ := ansi.FirstGraphemeCluster(rest, ansi.WcWidth)
			assert.LessOrEqual(t, utf8.RuneCountInString(cluster), 10, "%+q", text)
			assert.LessOrEqual(t, ansi.StringWidthWc(cluster), 18, "%+q", text)
			rest = rest[len(cluster):]
		}
	}
}

func TestPrintableLeavesTextOnly(t *testing.T) {
	assert.Equal(t, "[2Jone\n\ttwo]52;c;aGk=", termsafe.Printable("\x1b[2Jo\u202ene\n\ttwo\x1b]52;c;aGk=\x07"))
	assert.Equal(t, "one two", termsafe.Line("one\n\t two\x1b", 10))
	assert.Equal(t, "one…", termsafe.Line("one two", 4))
}

// The redactor looks for secrets without the invisible characters. If Printable dropped others, it could join the
// halves of a secret that the redactor has not seen.
func TestPrintableDropsOnlyWhatTheRedactorIgnores(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if utf8.ValidRune(r) && !invisible.Rune(r) {
			assert.Equal(t, "a"+string(r)+"b", termsafe.Printable("a"+string(r)+"b"), "%U", r)
		}
	}
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
		assert.Equal(t, c.want, termsafe.Rows(c.text, c.columns))
	}
	assert.Equal(t, "abc", termsafe.Fit("abc", 3))
	assert.Equal(t, "ab…", termsafe.Fit("abcd", 3))
	assert.Equal(t, "abcd", termsafe.Fit("abcd", 0))
}
