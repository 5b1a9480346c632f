package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// CallText describes a call in one line of about n runes: in a few words if it is a known call of this program's tools,
// and otherwise with its tool and its arguments. diff is the change that it has made to a file, or "" if that is not
// known.
func CallText(c turn.CallEvent, diff string, n int) string {
	if label := label(c.Tool, c.Arguments, diff); label != "" {
		return termsafe.Line(label, n)
	}
	tool := Preview(c.Tool)
	room := max(n-len(tool)-1, minArguments)
	return strings.TrimSpace(tool + " " + Excerpt(termsafe.Visible(Arguments(c.Arguments)), room, c.ArgumentsBytes))
}

// minArguments is how many runes of a call's arguments CallText shows, even if the tool has a long name.
const minArguments = 20

// changers are the tools of this program that change one file, with what they do.
var changers = map[string]string{"local/edit_file": "edit", "local/write_file": "write", "local/patch_file": "patch",
	"local/delete_file": "delete"}

// label describes a call of a tool of this program in a few words, or returns "" if it does not know the call. The
// arguments may be cut.
func label(tool, arguments, diff string) string {
	fields := beginning(arguments)
	text := func(name string) (value string) {
		_ = json.Unmarshal(fields[name], &value) // a missing value is empty
		return termsafe.Visible(strings.ReplaceAll(value, "\t", " "))
	}
	path := text("path")
	switch tool {
	case "local/shell":
		return commandLabel(text("command"))
	case "local/job_start":
		return strings.TrimPrefix(commandLabel(text("command"))+" &", " &")
	case "local/list_files":
		return "list " + cmp.Or(path, ".")
	case "local/read_file":
		return withObject("read", path)
	case "local/fetch_url":
		return withObject("fetch", text("url"))
	case "local/search_text":
		if query := text("query"); query != "" {
			return strings.TrimSuffix(fmt.Sprintf("search %q in %s", query, path), " in ")
		}
		return ""
	}
	if verb := withObject(changers[tool], path); changers[tool] != "" && verb != "" {
		return strings.TrimSpace(verb + " " + LineCounts(cmp.Or(diff, Diff(tool, arguments))))
	}
	return ""
}

// withObject returns a verb and its object, or "" if there is none.
func withObject(verb, object string) string {
	if object == "" {
		return ""
	}
	return verb + " " + object
}

// LineCounts returns how many lines a diff, as Diff and ResultDiff return it, adds and removes: "+2 -1". It is empty if
// the diff does not compare a whole file.
func LineCounts(diff string) string {
	_, hunks, _ := strings.Cut(diff, "\n+++ ")
	_, hunks, _ = strings.Cut(hunks, "\n")
	if !strings.HasPrefix(hunks, "@@") {
		return ""
	}
	added, removed := 0, 0
	for line := range strings.Lines(hunks) {
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return Changed(added, removed)
}

// Changed returns numbers of added and removed lines in the form "+2 -1". It leaves out a zero.
func Changed(added, removed int) string {
	var parts []string
	if added > 0 {
		parts = append(parts, fmt.Sprintf("+%d", added))
	}
	if removed > 0 {
		parts = append(parts, fmt.Sprintf("-%d", removed))
	}
	return strings.Join(parts, " ")
}

// commandLabel returns the first line of a command and the number of its other lines.
func commandLabel(command string) string {
	first, rest, more := strings.Cut(strings.TrimSpace(command), "\n")
	switch {
	case first == "":
		return ""
	case more:
		return fmt.Sprintf("$ %s … +%s", first, Count(strings.Count(rest, "\n")+1, "line"))
	}
	return "$ " + first
}

// beginning decodes the fields of a JSON object. If the object is cut within a string, that string ends there.
func beginning(arguments string) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &fields) == nil {
		return fields
	}
	// The cut may be within an escape sequence, of at most 6 bytes, or 12 for a surrogate pair.
	for n := 0; n <= min(12, len(arguments)); n++ {
		if json.Unmarshal([]byte(arguments[:len(arguments)-n]+`"}`), &fields) == nil {
			return fields
		}
	}
	return nil
}
