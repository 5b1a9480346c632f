package nearest

import (
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// maxName bounds the names that are compared, in runes.
const maxName = 64

// Name returns the candidate with the fewest edits from name, or one that begins with name. It returns "" if none is
// near enough. The limit is one edit for every three characters, plus one.
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
		if d <= limit && d < max(2, len(name)) {
			best, limit = c, d-1
		}
	}
	return best
}
