package files

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/everturn/everturn/internal/redact"
)

// Bounds of a diff in the result of a change, in bytes: of the two texts that are compared, and of the diff.
const (
	maxCompared = 2 << 20
	maxDiff     = 4 << 10
)

// WithDiff returns the result of a change of a file from old to text: the line done and the hunks of a unified diff,
// with the lines around each change. Secrets are masked as read_file masks them. It returns only done for binary files
// and for texts that are too long to be compared.
func WithDiff(done string, old, text []byte, secrets *redact.Redactor) string {
	if len(old)+len(text) > maxCompared || bytes.IndexByte(old, 0) >= 0 || !utf8.Valid(old) || !utf8.Valid(text) {
		return done
	}
	all := string(diff.Diff("", []byte(secrets.Mask(string(old))), "", []byte(secrets.Mask(string(text)))))
	_, hunks, ok := strings.Cut(all, "\n@@ ")
	if !ok {
		return done
	}
	hunks = strings.TrimSuffix("@@ "+hunks, "\n")
	if len(hunks) > maxDiff {
		shown := hunks[:strings.LastIndexByte(hunks[:maxDiff], '\n')+1] // up to the last whole line
		hunks = shown + fmt.Sprintf("[cut: %d more lines]", strings.Count(hunks[len(shown):], "\n")+1)
	}
	return done + "\n" + hunks
}
