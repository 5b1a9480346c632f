package ui

import (
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// edits are the pairs of names by which the tools that edit files know the old and the new text.
var edits = [][2]string{{"old_string", "new_string"}, {"oldText", "newText"}}

// Diff returns the change that the arguments of a call make, as a unified diff that is safe for a terminal. It is empty
// unless the arguments are a path and one change of text, a list of changes, or a patch, and nothing else: a diff
// beside other arguments would hide what the call does.
func Diff(arguments string) string {
	fields, ok := object(arguments)
	path := ""
	for _, name := range []string{"path", "file_path"} {
		if text, given := fields[name]; ok && given {
			ok = json.Unmarshal(text, &path) == nil
			delete(fields, name)
		}
	}
	if !ok || path == "" {
		return ""
	}
	if patch, given := "", len(fields) == 1 && fields["patch"] != nil; given {
		_ = json.Unmarshal(fields["patch"], &patch) // empty if it is no text
		return termsafe.Visible(strings.ReplaceAll(strings.TrimSuffix(patch, "\n"), "\t", "    "))
	}
	var list []json.RawMessage
	if text, given := fields["edits"]; given && len(fields) == 1 {
		ok = json.Unmarshal(text, &list) == nil
	} else {
		list = []json.RawMessage{nil}
	}
	out := ""
	for _, text := range list {
		if text != nil {
			fields, ok = object(string(text))
		}
		change, known := changeOf(fields, path)
		if !ok || !known {
			return ""
		}
		out += change
	}
	return termsafe.Visible(strings.ReplaceAll(strings.TrimSuffix(out, "\n"), "\t", "    "))
}

// changeOf returns the unified diff of one change of text; ok is false if the fields are not exactly that.
func changeOf(fields map[string]json.RawMessage, path string) (change string, ok bool) {
	for _, names := range edits {
		var old, text string
		if len(fields) != 2 || json.Unmarshal(fields[names[0]], &old) != nil ||
			json.Unmarshal(fields[names[1]], &text) != nil {
			continue
		}
		if old != text {
			change = string(diff.Diff(path, terminated(old), path, terminated(text)))
			_, change, _ = strings.Cut(change, "\n") // the line that names the command
		}
		return change, true
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

func terminated(text string) []byte { return []byte(strings.TrimSuffix(text, "\n") + "\n") }
