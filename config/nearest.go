package config

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/nearest"
)

// unknownKey returns the message for a key that a table does not have. It suggests the most similar key, of the same
// table or of another section.
func unknownKey(path, name string, own []string) string {
	key := join(path, name)
	if best := nearest.Name(name, own); best != "" {
		return fmt.Sprintf("unknown key %s; did you mean %s?", key, join(path, best))
	}
	for _, k := range Keys() {
		if strings.HasSuffix(k, "."+name) {
			return fmt.Sprintf("unknown key %s; did you mean %s?", key, k)
		}
	}
	return fmt.Sprintf("unknown key %s; known here: %s", key, strings.Join(own, ", "))
}

// quote formats a value of the operator for an error: escaped, and truncated if it is long.
func quote(s string) string {
	const most = 40 // characters
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
