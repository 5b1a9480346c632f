package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// edits are the names that tools which edit files use for the arguments with the old and the new text.
var edits = [][2]string{{"old_string", "new_string"}, {"oldText", "newText"}}

// patches are the tools whose arguments are a path and a patch. They patch the file at that path, whatever file names
// the patch itself contains.
var patches = []string{"local/patch_file", "local/canvas_patch"}

// Diff returns the change that a call would make to a file, as a unified diff that is safe for a terminal. The diff
// names the path in the arguments. It is empty unless the arguments are a path and exactly one of these: the old and
// the new text, a list of such changes, or a patch for a tool of this program. With other arguments the call may do
// more than a diff shows.
func Diff(tool, arguments string) string {
	fields, ok := object(arguments)
	path := ""
	for _, name := range []string{"path", "file_path"} {
		if text, given := fields[name]; ok && given {
			ok = path == "" && json.Unmarshal(text, &path) == nil // two paths would be ambiguous
			delete(fields, name)
		}
	}
	if !ok || path == "" {
		return ""
	}
	path = strings.ReplaceAll(termsafe.Visible(path), "\n", `\n`)
	header := fmt.Sprintf("--- %[1]s\n+++ %[1]s\n", path)
	hunks := patchHunks(tool, fields)
	if hunks == "" {
		hunks = editHunks(fields)
	}
	if hunks == "" {
		return ""
	}
	hunks = strings.ReplaceAll(strings.TrimSuffix(hunks, "\n"), "\t", "    ") // Visible would escape tabs
	return termsafe.Visible(header + hunks)
}

// patchHunks returns the hunks of the argument patch, if fields contains only that and tool is one of patches;
// otherwise "". It leaves out the lines above the first hunk, because the tool ignores them.
func patchHunks(tool string, fields map[string]json.RawMessage) string {
	patch := ""
	if len(fields) != 1 || !slices.Contains(patches, tool) || json.Unmarshal(fields["patch"], &patch) != nil {
		return ""
	}
	_, hunks, ok := strings.Cut("\n"+patch, "\n@@ ")
	if !ok {
		return ""
	}
	return "@@ " + hunks
}

// editHunks returns the hunks of the edit in fields, or of the list of edits in its only field "edits". It returns ""
// if fields contains anything else.
func editHunks(fields map[string]json.RawMessage) (out string) {
	list := []map[string]json.RawMessage{fields}
	if text, given := fields["edits"]; given && len(fields) == 1 {
		var edits []json.RawMessage
		if json.Unmarshal(text, &edits) != nil {
			return ""
		}
		list = nil
		for _, e := range edits {
			fields, ok := object(string(e))
			if !ok {
				return ""
			}
			list = append(list, fields)
		}
	}
	for _, fields := range list {
		hunks, ok := hunksOfEdit(fields)
		if !ok {
			return ""
		}
		out += hunks
	}
	return out
}

// hunksOfEdit returns the hunks of the diff between the old and the new text of an edit. It returns false unless fields
// contains exactly these two texts. An edit that changes nothing has no hunks.
func hunksOfEdit(fields map[string]json.RawMessage) (hunks string, ok bool) {
	for _, names := range edits {
		var old, text string
		if len(fields) != 2 || json.Unmarshal(fields[names[0]], &old) != nil ||
			json.Unmarshal(fields[names[1]], &text) != nil {
			continue
		}
		// The texts are usually parts of lines. A newline at their end keeps the diff from marking both as files that lack
		// one. If only one has a newline, the edit joins or splits a line, and the diff must show that.
		if strings.HasSuffix(old, "\n") == strings.HasSuffix(text, "\n") {
			old, text = terminated(old), terminated(text)
		}
		_, hunks, _ = strings.Cut(string(diff.Diff("", []byte(old), "", []byte(text))), "\n@@ ")
		if hunks != "" {
			hunks = "@@ " + hunks
		}
		return hunks, true
	}
	return "", false
}

// object decodes a JSON object. It returns false if text is not exactly one object, or if a field occurs twice: JSON
// decoders do not agree which value counts, so the tool could use another one than the user sees.
func object(text string) (map[string]json.RawMessage, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !json.Valid([]byte(text)) {
		return nil, false
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		key, _ := name.(string) // in valid JSON, names are strings
		if _, twice := fields[key]; twice || d.Decode(&value) != nil {
			return nil, false
		}
		fields[key] = value
	}
	return fields, true
}

// terminated returns text with a newline at its end. It adds one only if there is none.
func terminated(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }
