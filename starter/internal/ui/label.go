package ui

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// CallText describes a call in one line of about n runes: its label, or its tool and its arguments. If the arguments
// are cut, size is the size of all of them in bytes; otherwise it may be 0.
func CallText(tool, arguments string, n int, size int64) string {
	if label := Label(tool, arguments); label != "" {
		return termsafe.Line(label, n)
	}
	tool = Preview(tool)
	room := max(n-len(tool)-1, minArguments)
	return strings.TrimSpace(tool + " " + Excerpt(termsafe.Visible(Arguments(arguments)), room, size))
}

// minArguments is how many runes of a call's arguments CallText shows, even if the tool has a long name.
const minArguments = 20

// Label describes a call of a tool of this program in a few words that are safe for a terminal, or returns "" if it
// does not know the call. The arguments may be cut.
func Label(tool, arguments string) string {
	fields := beginning(arguments)
	text := func(name string) (value string) {
		_ = json.Unmarshal(fields[name], &value) // a missing value is empty
		return termsafe.Visible(strings.ReplaceAll(value, "\t", " "))
	}
	switch tool {
	case "local/shell":
		return commandLabel(text("command"))
	case "local/job_start":
		if command := commandLabel(text("command")); command != "" {
			return command + " &"
		}
	}
	return ""
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
