package nearest

import (
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// maxName bounds the names that are compared, in runes.
const maxName = 64

// Name returns the candidate that name probably means, or "" if no candidate is near enough. A candidate is near if it
// takes few edits, apart from case: at most one for every three characters, plus one. One that begins with name counts
// as one edit away. The nearest wins, and of equally near ones the first.
func Name(name string, candidates []string) string {
	if utf8.RuneCountInString(name) > maxName {
		return ""
	}
	best, limit := "", len(name)/3+1
	for _, c := range candidates {
		d := levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(c))
		if name != "" && strings.HasPrefix(c, name) {
			d = 1
		}
		// A short name must not be replaced as a whole, which would make every short candidate near.
		if d <= limit && d < max(2, len(name)) {
			best, limit = c, d-1
		}
	}
	return best
}
