package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// edits are the pairs of names by which the tools that edit files know the old and the new text.
var edits = [][2]string{{"old_string", "new_string"}, {"oldText", "newText"}}

// patches are the tools whose arguments are a path and a patch of that file, whatever file the patch itself names.
var patches = []string{"local/patch_file", "local/canvas_patch"}

// Diff returns the change that a call makes, as a unified diff that is safe for a terminal and names the file of the
// call's own path. It is empty unless the arguments are a path and one change of text, a list of changes, or a patch
// for one of this program's tools, and nothing else: a diff beside other arguments would hide what the call does.
func Diff(tool, arguments string) string {
	fields, ok := object(arguments)
	path := ""
	for _, name := range []string{"path", "file_path"} {
		if text, given := fields[name]; ok && given {
			ok = path == "" && json.Unmarshal(text, &path) == nil
			delete(fields, name)
		}
	}
	if !ok || path == "" {
		return ""
	}
	path = strings.ReplaceAll(termsafe.Visible(path), "\n", `\n`)
	header := fmt.Sprintf("--- %[1]s\n+++ %[1]s\n", path)
	out := hunksOf(tool, fields)
	if out == "" {
		out = changesOf(fields)
	}
	if out == "" {
		return ""
	}
	return termsafe.Visible(strings.ReplaceAll(header+strings.TrimSuffix(out, "\n"), "\t", "    "))
}

// hunksOf returns the hunks of a patch. The tool ignores what is above them.
func hunksOf(tool string, fields map[string]json.RawMessage) string {
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

// changesOf returns the hunks of one or several changes of text; none if the fields are anything else.
func changesOf(fields map[string]json.RawMessage) (out string) {
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
		change, ok := changeOf(fields)
		if !ok {
			return ""
		}
		out += change
	}
	return out
}

// changeOf returns the hunks of one change of text; ok is false if the fields are not exactly that.
func changeOf(fields map[string]json.RawMessage) (hunks string, ok bool) {
	for _, names := range edits {
		var old, text string
		if len(fields) != 2 || json.Unmarshal(fields[names[0]], &old) != nil ||
			json.Unmarshal(fields[names[1]], &text) != nil {
			continue
		}
		if strings.HasSuffix(old, "\n") == strings.HasSuffix(text, "\n") { // else a line is joined or split: show it
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

// object decodes a JSON object. It refuses one that names a field twice, because decoders disagree which one counts.
func object(text string) (map[string]json.RawMessage, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		key, _ := name.(string) // the decoder checks it
		if _, twice := fields[key]; twice || d.Decode(&value) != nil {
			return nil, false
		}
		fields[key] = value
	}
	return fields, true
}

func terminated(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }
