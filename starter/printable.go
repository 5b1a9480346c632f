package main

import (
	"fmt"
	"strings"

	"github.com/everturn/everturn/starter/terminal"
)

// printable takes out of a text what could do something to a terminal. Models and tools write what is printed here.
func printable(s string) string { return terminal.Printable(s) }

// line makes one line of a text, of at most n runes.
func line(s string, n int) string { return terminal.Line(s, n) }

// excerpt makes one line of data, of at most n runes, and says how large the data is when that is a part of it. size is
// that of the whole in bytes, if s is itself the beginning of it.
func excerpt(s string, n int, size int64) string {
	out := line(s, n)
	if size <= int64(len(s)) && !strings.HasSuffix(out, "…") {
		return out
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.TrimSuffix(out, "…"), max(size, int64(len(s))))
}

// quoted is a word as a shell takes it.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@+,", r)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
