package ui

import (
	"fmt"
	"strings"

	"github.com/everturn/everturn/internal/workspace"
)

// namedFiles is how many files ChangedFiles names.
const namedFiles = 3

// ChangedFiles describes the files that a session changes in one line: "color.go +2 -1, go.mod +1 and 4 more files".
func ChangedFiles(files []workspace.File) string {
	var names []string
	for _, f := range files[:min(len(files), namedFiles)] {
		names = append(names, ChangedFile(f))
	}
	line := strings.Join(names, ", ")
	if more := len(files) - namedFiles; more > 0 {
		line += fmt.Sprintf(" and %s", Count(more, "more file"))
	}
	return line
}

// ChangedFile describes a file that a session changes: "color.go +2 -1".
func ChangedFile(f workspace.File) string {
	how := Changed(f.Added, f.Removed)
	if f.Binary {
		how = "(binary)"
	}
	return strings.TrimSpace(Preview(f.Path) + " " + how)
}
