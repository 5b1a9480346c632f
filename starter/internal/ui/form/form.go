package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/nearest"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Kind is the kind of value that a field takes.
type Kind string

// The kinds of fields.
const (
	KindText    Kind = "text"
	KindInteger Kind = "whole number"
	KindNumber  Kind = "number"
	KindYesNo   Kind = "yes or no"
	KindChoice  Kind = "one of the choices"
	KindChoices Kind = "some of the choices"
	KindJSON    Kind = "JSON" // any other type; only the server checks the value
)

// Bounds on a form and on its answer.
const (
	maxSchema  = 64 << 10 // bytes
	maxFields  = 64
	maxOptions = 256
	maxContent = 60 << 10 // bytes of the answer; the journal keeps 64 KiB of a response
)

// Form is the form of an elicitation, with its fields in the server's order.
type Form struct{ Fields []Field }

// Field is one value of the answer.
type Field struct {
	Name        string
	Title       string
	Description string
	Kind        Kind
	Required    bool
	// Default is the value if the user gives none; nil for none. Parse omits a default that the field itself would not
	// accept.
	Default json.RawMessage
	Options []Option // the choices of KindChoice and KindChoices
	// Min and Max bound the value of a number, the length of a text in characters, or how many choices are taken. nil
	// means no bound.
	Min, Max *float64
	Format   string // of a text: email, uri, date or date-time
}

// Option is one of a field's choices. Value goes to the server; Title is shown to the user and may be empty.
type Option struct{ Value, Title string }

// Parse parses the schema of an elicitation. An empty schema is a form without fields, which asks only for agreement.
func Parse(schema json.RawMessage) (Form, error) {
	var f Form
	if len(schema) > maxSchema {
		return f, fmt.Errorf("reading the form: its schema is %d bytes; the maximum is %d", len(schema), maxSchema)
	}
	if !utf8.Valid(schema) {
		return f, errors.New("reading the form: its schema is not valid UTF-8")
	}
	if len(schema) == 0 || string(schema) == "null" {
		return f, nil
	}
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return f, fmt.Errorf("reading the form: invalid schema: %w", err)
	}
	if len(s.Properties) == 0 {
		return f, nil
	}
	members, err := membersOf(s.Properties)
	if err != nil {
		return f, fmt.Errorf("reading the form: invalid properties: %w", err)
	}
	if len(members) > maxFields {
		return f, fmt.Errorf("reading the form: it has %d fields; the maximum is %d", len(members), maxFields)
	}
	for _, m := range members {
		field, err := parseField(m)
		if err != nil {
			return f, fmt.Errorf("reading the form: field %q: %w", termsafe.Line(m.name, shownName), err)
		}
		field.Required = slices.Contains(s.Required, m.name)
		f.Fields = append(f.Fields, field)
	}
	return f, nil
}

// Pair is a field's name and the text that the user gives for it.
type Pair struct{ Name, Text string }

// PairOf parses name=text.
func PairOf(s string) (Pair, error) {
	name, text, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return Pair{}, fmt.Errorf("%q has no value: write name=value", termsafe.Line(s, shownName))
	}
	return Pair{name, text}, nil
}

// Fill builds the answer from pairs of field and text. A field without a text gets its default. A field of KindChoices
// may occur in several pairs, one for each choice. The error lists everything that is wrong.
func (f Form) Fill(pairs []Pair) (json.RawMessage, error) {
	texts := map[string][]string{}
	var wrong problems
	for _, p := range pairs {
		if _, known := f.find(p.Name); !known && texts[p.Name] == nil { // each unknown name is reported once
			wrong.add(f.unknownField(p.Name))
		}
		texts[p.Name] = append(texts[p.Name], p.Text)
	}
	answer := values{}
	for _, field := range f.Fields {
		given, ok := texts[field.Name]
		switch {
		case ok:
			value, err := field.parseAll(given)
			wrong.add(err)
			answer[field.Name] = value
		case field.Default != nil:
			answer[field.Name] = field.Default
		case field.Required:
			wrong.add(field.missing())
		}
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return f.object(answer)
}

// Read builds the answer from one text, which is a JSON object with all values. Fields that the object leaves out do
// not get their defaults. If the form has only one field, the text may also be the value of that field.
func (f Form) Read(text string) (json.RawMessage, error) {
	members, err := membersOf([]byte(text))
	isObject := err == nil && utf8.ValidString(text)
	if len(f.Fields) == 1 && !(isObject && len(members) == 1 && members[0].name == f.Fields[0].Name) {
		return f.Fill([]Pair{{f.Fields[0].Name, text}})
	}
	switch {
	case !isObject && len(f.Fields) == 0:
		return nil, errors.New("the form has no fields: agree with --accept, or use --decline")
	case !isObject:
		return nil, fmt.Errorf("the form has %s: give each as name=value, or all in one JSON object", f.named())
	}
	var wrong problems
	answer := values{}
	for _, m := range members {
		field, known := f.find(m.name)
		if !known {
			wrong.add(f.unknownField(m.name))
			continue
		}
		wrong.add(field.check(m.value))
		answer[m.name] = m.value
	}
	for _, field := range f.Fields {
		if field.Required && answer[field.Name] == nil {
			wrong.add(field.missing())
		}
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return f.object(answer)
}

// named returns the number of the form's fields with their names, for error messages: "2 fields (a, b)".
func (f Form) named() string {
	names := make([]string, len(f.Fields))
	for i, field := range f.Fields {
		names[i] = field.Name
	}
	if len(names) == 1 {
		return fmt.Sprintf("one field (%s)", termsafe.Line(names[0], shownName))
	}
	return fmt.Sprintf("%d fields (%s)", len(names), termsafe.Line(strings.Join(names, ", "), shownList))
}

func (f Form) find(name string) (Field, bool) {
	i := slices.IndexFunc(f.Fields, func(field Field) bool { return field.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return f.Fields[i], true
}

// unknownField returns the error for a name that is not a field of the form. It suggests a field with a similar name,
// or else lists the fields.
func (f Form) unknownField(name string) error {
	names := make([]string, len(f.Fields))
	for i, field := range f.Fields {
		names[i] = field.Name
	}
	hint := "; the form has no fields"
	if len(names) > 0 {
		hint = "; the form has " + f.named()
	}
	if best := nearest.Name(name, names); best != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", termsafe.Line(best, shownName))
	}
	return fmt.Errorf("there is no field %q%s", termsafe.Line(name, shownName), hint)
}

// object encodes the answer as a JSON object, with its members in the form's order.
func (f Form) object(answer values) (json.RawMessage, error) {
	out := []byte{'{'}
	for _, field := range f.Fields {
		value := answer[field.Name]
		if value == nil {
			continue
		}
		name, err := json.Marshal(field.Name)
		if err != nil {
			return nil, fmt.Errorf("writing the answer: %w", err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, append(out, '}')); err != nil {
		return nil, fmt.Errorf("writing the answer: %w", err)
	}
	if compact.Len() > maxContent {
		return nil, fmt.Errorf("the answer is %d bytes; the maximum is %d", compact.Len(), maxContent)
	}
	return compact.Bytes(), nil
}

// values are the values of fields, by name.
type values map[string]json.RawMessage

// problems collects everything that is wrong with an answer, so that one error reports all of it.
type problems []string

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err.Error())
	}
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(p, "; "))
}

// Accept builds the response that accepts an elicitation, from a text (see Form.Read) or, if that is empty, from fields
// (see Form.Fill). Without either, all fields get their defaults. For an address, both must be empty: the response only
// confirms that the user has opened it.
func Accept(e turn.Elicitation, text string, fields []Pair) (turn.ElicitationResponse, error) {
	r := turn.ElicitationResponse{Key: e.Key, Action: turn.ElicitationAccept}
	if e.URL != "" {
		if text != "" || len(fields) > 0 {
			return r, errors.New("it asks you to open an address and takes no values: confirm with --accept that you did, or " +
				"use --decline")
		}
		return r, nil
	}
	f, err := Parse(e.Schema)
	if err != nil {
		return r, fmt.Errorf("%w; it can only be declined", err)
	}
	var content json.RawMessage
	if text != "" {
		content, err = f.Read(text)
	} else {
		content, err = f.Fill(fields)
	}
	r.Content = content
	return r, err
}
