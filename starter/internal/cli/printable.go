package cli

import (
	"fmt"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/terminal"
)

// printable removes the characters of a text that could control a terminal. Models and tools write the text that is
// printed here.
func printable(s string) string { return terminal.Printable(s) }

// line returns a text as one line of at most n runes.
func line(s string, n int) string { return terminal.Line(s, n) }

// excerpt returns data as one line of at most n runes, and adds the size of the data if the line is only a part of it.
// If s itself is only the beginning of the data, size is the size of the whole, in bytes.
func excerpt(s string, n int, size int64) string {
	out := line(s, n)
	if size <= int64(len(s)) && !strings.HasSuffix(out, "…") {
		return out
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.TrimSuffix(out, "…"), max(size, int64(len(s))))
}

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
