package ui

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// commandTools are the tools of this program whose argument command is a command line.
var commandTools = []string{"local/shell", "local/job_start"}

// Command returns the command line of a call of this program's shell, with a $ before its first line and the others
// indented, and the other arguments as JSON, or "" if there are none. It returns false for other tools, and if the
// arguments are not one object with one command. The command may be unsafe for a terminal.
func Command(tool, arguments string) (command, others string, ok bool) {
	if !slices.Contains(commandTools, tool) {
		return "", "", false
	}
	fields, ok := object(arguments)
	if !ok || json.Unmarshal(fields["command"], &command) != nil {
		return "", "", false
	}
	delete(fields, "command")
	for name := range fields {
		if strings.EqualFold(name, "command") { // the tool may run this one
			return "", "", false
		}
	}
	// Visible would escape the tabs of a script, which are common.
	command = "$ " + strings.ReplaceAll(strings.ReplaceAll(command, "\t", "    "), "\n", "\n  ")
	if len(fields) == 0 {
		return command, "", true
	}
	return command, encode(fields), true
}

// encode returns fields as JSON without HTML escaping.
func encode(fields map[string]json.RawMessage) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(fields) // decoded values always encode
	return Arguments(strings.TrimSuffix(b.String(), "\n"))
}

// escape matches an escape sequence of JSON.
var escape = regexp.MustCompile(`\\(u00(26|3[cCeE])|.)`)

// Arguments returns the arguments of a call, which may be cut, for a user to read: JSON without the escapes \u0026,
// \u003c and \u003e, which mean &, < and >. It does not change other texts.
func Arguments(arguments string) string {
	if !strings.HasPrefix(strings.TrimSpace(arguments), "{") {
		return arguments
	}
	return escape.ReplaceAllStringFunc(arguments, func(s string) string {
		switch strings.ToLower(s) {
		case `\u0026`:
			return "&"
		case `\u003c`:
			return "<"
		case `\u003e`:
			return ">"
		}
		return s
	})
}
