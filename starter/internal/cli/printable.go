package cli

import (
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// printable removes the characters of a text that could control a terminal. Models and tools write the text that is
// printed here.
func printable(s string) string { return termsafe.Printable(s) }

// line returns a text as one line of at most n runes.
func line(s string, n int) string { return termsafe.Line(s, n) }

// quoted quotes a word for a shell.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@+,", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
