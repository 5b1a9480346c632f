package config

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// unknownKey says that a table has no such key, and which one was probably meant: one of its own, or one of another
// section.
func unknownKey(path, name string, own []string) string {
	key := join(path, name)
	if best := nearest(name, own); best != "" {
		return fmt.Sprintf("unknown key %s; did you mean %s?", key, join(path, best))
	}
	for _, k := range Keys() {
		if strings.HasSuffix(k, "."+name) {
			return fmt.Sprintf("unknown key %s; did you mean %s?", key, k)
		}
	}
	return fmt.Sprintf("unknown key %s; known here: %s", key, strings.Join(own, ", "))
}

// nearest is the candidate with the fewest edits from name, or empty where none is near enough to be meant.
func nearest(name string, candidates []string) string {
	if utf8.RuneCountInString(name) > 64 {
		return ""
	}
	best, limit := "", len(name)/3+1
	for _, c := range candidates {
		if d := edits(strings.ToLower(name), c); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// edits is the Levenshtein distance: insertions, deletions and replacements from a to b.
func edits(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range to {
			replace := diagonal
			if r != s {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}

// quote shows a value of the user's in an error: escaped, and cut where it is long.
func quote(s string) string {
	const most = 40 // characters
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
