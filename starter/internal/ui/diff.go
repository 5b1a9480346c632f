package ui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// edits are the names that tools which edit files use for the arguments with the old and the new text.
var edits = [][2]string{{"old_string", "new_string"}, {"oldText", "newText"}}

// patches are the tools whose arguments are a path and a patch. They patch the file at that path, whatever file names
// the patch itself contains.
var patches = []string{"local/patch_file"}

// writers are the names of tools whose arguments are a path and the whole text of the file.
var writers = []string{"write_file"}

// Diff returns the change that a call would make to a file, as a unified diff that is safe for a terminal. The diff
// names the path in the arguments. It is empty unless the arguments are a path and exactly one of these: the old and
// the new text, a list of such changes, the whole text, or a patch for a tool of this program. With other arguments the
// call may do more than a diff shows.
func Diff(tool, arguments string) string {
	path, fields := target(arguments)
	if path == "" {
		return ""
	}
	flag := takeFlag(tool, fields)
	hunks := cmp.Or(patchHunks(tool, fields), textHunks(tool, flag, fields))
	if hunks == "" {
		if hunks = editHunks(fields); hunks != "" && flag {
			hunks = "each occurrence:\n" + hunks
		}
	}
	if hunks == "" {
		return ""
	}
	return withHeader(path, hunks)
}

// DiffIn is Diff with the numbers of lines and the lines around each change. It reads the file that the call changes,
// in the folder workspace. If tool is not one of local/write_file and local/edit_file, the change does not apply to the
// file, or workspace is "", it returns Diff.
func DiffIn(workspace, tool, arguments string) string {
	plain := Diff(tool, arguments)
	if plain == "" || workspace == "" || !slices.Contains(inWorkspace, tool) {
		return plain
	}
	path, fields := target(arguments)
	old, err := readIn(workspace, path)
	if err != nil {
		return plain
	}
	text, ok := apply(string(old), tool, fields)
	if !ok {
		return plain
	}
	return withHeader(path, cmp.Or(hunksOf(string(old), text), "the file does not change"))
}

// ResultDiff returns the diff of a call that has ended with result. The result of a file tool of this program contains
// a diff with the lines around each change; ResultDiff returns that one if Diff shows the call too, and Diff otherwise.
func ResultDiff(tool, arguments, result string) string {
	plain := Diff(tool, arguments)
	_, hunks, ok := strings.Cut(result, "\n@@ ")
	if path, _ := target(arguments); plain != "" && ok && strings.HasPrefix(tool, "local/") {
		return withHeader(path, "@@ "+hunks)
	}
	return plain
}

// inWorkspace are the tools of this program whose files DiffIn reads.
var inWorkspace = []string{"local/write_file", "local/edit_file"}

// maxCompared bounds the file that DiffIn reads, in bytes.
const maxCompared = 1 << 20

// readIn reads a regular file in a folder, and does not follow links out of it.
func readIn(folder, path string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxCompared {
		return nil, errors.ErrUnsupported
	}
	return io.ReadAll(io.LimitReader(f, maxCompared))
}

// apply returns the text that a tool of inWorkspace makes of old. It returns false if the tool would refuse the call.
func apply(old, tool string, fields map[string]json.RawMessage) (string, bool) {
	flag := takeFlag(tool, fields)
	if content, ok := contentOf(tool, fields); ok {
		return content, flag // without overwrite, write_file refuses a file that exists
	}
	from, to, ok := textsOf(fields)
	if n := strings.Count(old, from); !ok || from == "" || n == 0 || n > 1 && !flag {
		return "", false
	}
	return strings.ReplaceAll(old, from, to), true
}

// target decodes the arguments of a call that changes a file. It returns the path and the other arguments, or "" if
// there is not exactly one path.
func target(arguments string) (path string, fields map[string]json.RawMessage) {
	fields, ok := object(arguments)
	for _, name := range []string{"path", "file_path"} {
		if text, given := fields[name]; ok && given {
			ok = path == "" && json.Unmarshal(text, &path) == nil // two paths would be ambiguous
			delete(fields, name)
		}
	}
	if !ok {
		return "", nil
	}
	return path, fields
}

// flags are the optional boolean arguments of this program's tools.
var flags = map[string]string{"local/write_file": "overwrite", "local/edit_file": "replace_all"}

// takeFlag removes the flag of a tool of this program from its arguments, and returns its value.
func takeFlag(tool string, fields map[string]json.RawMessage) (set bool) {
	name, known := flags[tool]
	if value, given := fields[name]; known && given && json.Unmarshal(value, &set) == nil {
		delete(fields, name)
	}
	return set
}

// withHeader returns hunks as a diff of the file at path that is safe for a terminal.
func withHeader(path, hunks string) string {
	path = strings.ReplaceAll(termsafe.Visible(path), "\n", `\n`)
	hunks = strings.ReplaceAll(strings.TrimSuffix(hunks, "\n"), "\t", "    ") // Visible would escape tabs
	return fmt.Sprintf("--- %[1]s\n+++ %[1]s\n", path) + termsafe.Visible(hunks)
}

// contentOf returns the whole text of the file, if tool is one of writers and fields contains only that text.
func contentOf(tool string, fields map[string]json.RawMessage) (content string, ok bool) {
	name := tool[strings.LastIndexByte(tool, '/')+1:]
	if len(fields) != 1 || !slices.Contains(writers, name) {
		return "", false
	}
	return content, json.Unmarshal(fields["content"], &content) == nil
}

// textHunks returns the whole text of a file as a hunk that adds it; "" if the call has no such text. If the file may
// exist, because overwrite is set or the tool does not ask for it, a line says that the text replaces the file.
func textHunks(tool string, overwrite bool, fields map[string]json.RawMessage) string {
	content, ok := contentOf(tool, fields)
	if !ok {
		return ""
	}
	hunks := cmp.Or(hunksOf("", content), "@@ -0,0 +0,0 @@")
	if overwrite || tool != "local/write_file" {
		hunks = "the whole text of the file:\n" + hunks
	}
	return hunks
}

// hunksOf returns the hunks of the diff between two texts; "" if they are the same.
func hunksOf(old, text string) string {
	_, hunks, ok := strings.Cut(string(diff.Diff("", []byte(old), "", []byte(text))), "\n@@ ")
	if !ok {
		return ""
	}
	return "@@ " + hunks
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

// textsOf returns the old and the new text of an edit. It returns false unless fields contains exactly these two.
func textsOf(fields map[string]json.RawMessage) (old, text string, ok bool) {
	for _, names := range edits {
		if len(fields) == 2 && json.Unmarshal(fields[names[0]], &old) == nil &&
			json.Unmarshal(fields[names[1]], &text) == nil {
			return old, text, true
		}
	}
	return "", "", false
}

// hunksOfEdit returns the hunks of the diff between the old and the new text of an edit. It returns false unless fields
// contains exactly these two texts. An edit that changes nothing has no hunks.
func hunksOfEdit(fields map[string]json.RawMessage) (hunks string, ok bool) {
	old, text, ok := textsOf(fields)
	// The texts are usually parts of lines. A newline at their end keeps the diff from marking both as files that lack
	// one. If only one has a newline, the edit joins or splits a line, and the diff must show that.
	if strings.HasSuffix(old, "\n") == strings.HasSuffix(text, "\n") {
		old, text = terminated(old), terminated(text)
	}
	return hunksOf(old, text), ok
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
