package chat

import (
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// edit is a change of text as the tools that edit files name its parts.
type edit struct {
	Path      string `json:"path"`
	FilePath  string `json:"file_path"`
	OldString string `json:"old_string"`
	NewString string `json:"new_string"`
	OldText   string `json:"oldText"`
	NewText   string `json:"newText"`
	Old       string `json:"old"`
	New       string `json:"new"`
	Diff      string `json:"diff"`
	Patch     string `json:"patch"`
	Edits     []edit `json:"edits"`
}

// diffOf returns the change that the arguments of a call make, as a unified diff that is safe for a terminal; empty if
// they make none that the chat knows.
func diffOf(arguments string) string {
	var e edit
	if json.Unmarshal([]byte(arguments), &e) != nil {
		return ""
	}
	text := strings.TrimSuffix(e.text(e.Path+e.FilePath), "\n")
	return termsafe.Visible(strings.ReplaceAll(text, "\t", "    "))
}

func (e edit) text(path string) string {
	if given := e.Diff + e.Patch; isDiff(given) {
		return given
	}
	out := ""
	if old, text := e.OldString+e.OldText+e.Old, e.NewString+e.NewText+e.New; old != text {
		out = string(diff.Diff(path, terminated(old), path, terminated(text)))
		_, out, _ = strings.Cut(out, "\n") // the line that names the command
	}
	for _, part := range e.Edits {
		out += part.text(path)
	}
	return out
}

func terminated(text string) []byte { return []byte(strings.TrimSuffix(text, "\n") + "\n") }

// isDiff reports whether a text looks like a unified diff.
func isDiff(text string) bool {
	return strings.HasPrefix(text, "@@ -") || strings.Contains(text, "\n@@ -")
}
