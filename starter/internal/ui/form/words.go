package form

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Limits on how much of a server's text is shown, in characters.
const (
	shownName  = 60
	shownText  = 80
	shownTitle = 120
	shownList  = 300
	shownWords = 600
)

// Asker returns a phrase that names the server of an elicitation by its ID in the configuration: "the server files".
// The ID comes from the tool of the call.
func Asker(r turn.Request) string {
	rest, mcp := strings.CutPrefix(r.Tool, "mcp/")
	server, _, ok := strings.Cut(rest, "/")
	if !mcp || !ok {
		return "an MCP server"
	}
	return "the server " + word(server, shownName)
}

// ElicitationOf returns the elicitation of a request. If the request has none, it returns one with the question of the
// request and without fields, so that the user can only agree or decline.
func ElicitationOf(r turn.Request) turn.Elicitation {
	if r.Elicitation == nil {
		return turn.Elicitation{Message: r.Question}
	}
	return *r.Elicitation
}

// Recipients warns that others see the response.
const Recipients = "the server and the journal get your answer: enter no passwords or keys"

// word returns a text of the server on one line of at most n characters, with invisible characters as escapes.
func word(s string, n int) string { return termsafe.Line(termsafe.Visible(s), n) }

// Lines describes the field, safe for a terminal: its name and which values it accepts, then its description and its
// choices. The choices have numbers if the user may give them by number.
func (f Field) Lines() []string {
	head := word(f.Name, shownName)
	if f.Title != "" && f.Title != f.Name {
		head += " · " + word(f.Title, shownTitle)
	}
	lines := []string{head + " (" + f.takes() + ")"}
	if f.Description != "" {
		lines = append(lines, "  "+word(f.Description, shownWords))
	}
	for i, o := range f.Options {
		mark := "-"
		if f.byNumber() {
			mark = strconv.Itoa(i + 1)
		}
		lines = append(lines, fmt.Sprintf("  %s %s", mark, o.label()))
	}
	return lines
}

// label describes a choice: the value that is sent, and the server's title for it.
func (o Option) label() string {
	if o.Title == "" || o.Title == o.Value {
		return word(o.Value, shownTitle)
	}
	return word(o.Value, shownTitle) + " · " + word(o.Title, shownTitle)
}

// Lines describes all fields of the form.
func (f Form) Lines() []string {
	var lines []string
	for _, field := range f.Fields {
		lines = append(lines, field.Lines()...)
	}
	return lines
}

// Example returns command-line arguments with which a user could answer the form, with an ellipsis for each value. A
// form without fields takes --accept, and one with a single field only its value. Otherwise Example names the required
// fields, or the first one if none is required. quoted quotes a name for the shell.
func (f Form) Example(quoted func(string) string) string {
	switch {
	case len(f.Fields) == 0:
		return "--accept"
	case len(f.Fields) == 1:
		return `"..."`
	}
	var parts []string
	part := func(field Field) string { return "--field " + quoted(termsafe.Visible(field.Name)) + "=..." }
	for _, field := range f.Fields {
		if field.Required {
			parts = append(parts, part(field))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, part(f.Fields[0]))
	}
	return strings.Join(parts, " ")
}

// takes describes in words which values the field accepts, whether it is required, and its default.
func (f Field) takes() string {
	out := f.shape()
	if f.Required {
		out += ", required"
	}
	if f.Default != nil {
		out += ", default " + f.asTyped(f.Default)
	}
	return out
}

// shape describes in words which values the field accepts: "whole number, 1 to 5".
func (f Field) shape() string {
	out := string(f.Kind)
	if format, known := formats[f.Format]; known {
		out = format.words
	}
	b := f.bounds()
	switch {
	case b == "":
		return out
	case f.Kind == KindText:
		b += " characters"
	case f.Kind == KindChoices:
		b += " of them"
	}
	return out + ", " + b
}

// asTyped formats a JSON value as the user would type it: yes for true, a text without quotes, a list with commas.
func (f Field) asTyped(value json.RawMessage) string {
	var text string
	var list []string
	switch {
	case string(value) == "true":
		return "yes"
	case string(value) == "false":
		return "no"
	case json.Unmarshal(value, &text) == nil && text != "":
		return word(text, shownText)
	case json.Unmarshal(value, &list) == nil && len(list) > 0:
		return word(strings.Join(list, ","), shownText)
	}
	return word(string(value), shownText)
}

// bounds describes the field's bounds in words; empty if it has none.
func (f Field) bounds() string {
	switch {
	case f.Min != nil && f.Max != nil:
		return plain(*f.Min) + " to " + plain(*f.Max)
	case f.Min != nil:
		return "at least " + plain(*f.Min)
	case f.Max != nil:
		return "at most " + plain(*f.Max)
	}
	return ""
}

// optionNames lists the values of the choices for an error message.
func (f Field) optionNames() string {
	names := make([]string, len(f.Options))
	for i, o := range f.Options {
		names[i] = o.Value
	}
	return word(strings.Join(names, ", "), shownList)
}

// Acted describes what the user did with an elicitation: answered, declined or cancelled.
func Acted(r turn.ElicitationResponse) string {
	switch r.Action {
	case turn.ElicitationDecline:
		return "declined"
	case turn.ElicitationCancel:
		return "cancelled"
	}
	return "answered"
}

// plain formats a number without an exponent unless it is very large or very small.
func plain(n float64) string { return strconv.FormatFloat(n, 'g', 15, 64) }
