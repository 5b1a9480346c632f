package terminal

import "strings"

// Nearest is the candidate that a person meant by a name: one that is at most two edits away, or that begins with it.
// It is empty where there is none.
func Nearest(name string, candidates []string) string {
	best, fewest := "", 3
	for _, c := range candidates {
		d := edits(name, c)
		if name != "" && strings.HasPrefix(c, name) {
			d = 1
		}
		if d < fewest && d < max(2, len(name)) {
			best, fewest = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two names, in bytes. Of a longer a than any name is, the beginning counts.
func edits(a, b string) int {
	a = a[:min(len(a), 40)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
