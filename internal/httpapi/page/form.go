package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// form is the form of an elicitation.
type form struct {
	Fields []field
	Wrong  bool // the form cannot be shown, so the request can only be declined
}

// field is a field of a form.
type field struct {
	Name, Label, About string
	// Type is that of the HTML element input, or boolean, choice or choices.
	Type     string
	JSON     string // the type of the value: string, number, integer, boolean or array
	Required bool
	Value    string
	On       bool
	Options  []option
	Min, Max string
}

type option struct {
	Value, Label string
	On           bool
}

// property is the schema of a field, as the Model Context Protocol restricts it.
type property struct {
	Type, Title, Description, Format string
	Default                          json.RawMessage
	Minimum, Maximum                 json.Number
	MinLength, MaxLength             json.Number
	choices
	EnumNames []string
	Items     choices
}

type choices struct {
	Enum  []string
	OneOf []choice
	AnyOf []choice
}

type choice struct{ Const, Title string }

// maxFields bounds the fields of a form, and the options of a field.
const maxFields = 100

// inputTypes are the types of inputs for the formats of strings.
var inputTypes = map[string]string{"email": "email", "uri": "url", "date": "date"}

// parseForm reads the schema of an elicitation.
func parseForm(schema json.RawMessage) (f form) {
	var s struct {
		Properties json.RawMessage
		Required   []string
	}
	if len(schema) == 0 {
		return f
	}
	if json.Unmarshal(schema, &s) != nil {
		return form{Wrong: true}
	}
	if len(s.Properties) == 0 {
		return f
	}
	in := json.NewDecoder(bytes.NewReader(s.Properties)) // in the order of the schema
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		return form{Wrong: true}
	}
	for in.More() {
		name, _ := in.Token()
		var p property
		key, ok := name.(string)
		if !ok || in.Decode(&p) != nil || len(f.Fields) == maxFields {
			return form{Wrong: true}
		}
		field, ok := p.field(key)
		if !ok {
			return form{Wrong: true}
		}
		field.Required = slices.Contains(s.Required, key)
		f.Fields = append(f.Fields, field)
	}
	return f
}

// field returns the field of a property. ok is false if its type is none of those that the protocol permits.
func (p property) field(name string) (f field, ok bool) {
	f = field{Name: name, Label: line(cmp.Or(p.Title, name)), About: line(p.Description), JSON: p.Type}
	_ = json.Unmarshal(p.Default, &f.Value) // only a string has one here
	switch p.Type {
	case "boolean":
		f.Type, f.On = "boolean", string(p.Default) == "true"
	case "number", "integer":
		f.Type, f.Value, f.Min, f.Max = "number", string(p.Default), p.Minimum.String(), p.Maximum.String()
	case "array":
		var chosen []string
		_ = json.Unmarshal(p.Default, &chosen)
		f.Type, f.Options = "choices", p.Items.options(nil, chosen)
	case "string":
		f.Type, f.Min, f.Max = cmp.Or(inputTypes[p.Format], "text"), p.MinLength.String(), p.MaxLength.String()
		if f.Options = p.options(p.EnumNames, []string{f.Value}); len(f.Options) > 0 {
			f.Type = "choice"
		}
	default:
		return f, false
	}
	return f, len(f.Options) <= maxFields && (f.Type != "choices" || len(f.Options) > 0)
}

// options returns the options of a choice.
func (c choices) options(names, chosen []string) (list []option) {
	for i, value := range c.Enum {
		o := option{Value: value, Label: line(value)}
		if i < len(names) {
			o.Label = line(names[i])
		}
		list = append(list, o)
	}
	for _, alternative := range slices.Concat(c.OneOf, c.AnyOf) {
		list = append(list, option{Value: alternative.Const, Label: line(cmp.Or(alternative.Title, alternative.Const))})
	}
	for i := range list {
		list[i].On = slices.Contains(chosen, list[i].Value)
		list[i].Label = strings.TrimSpace(list[i].Label)
	}
	return list
}
