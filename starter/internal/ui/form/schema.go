package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// member is one name of a JSON object with its value.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns an object's members in their original order, which a map would lose. A duplicate name is an error.
func membersOf(b []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	var members []member
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: token.(string)} // a key is always a string
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		if seen[m.name] {
			return nil, fmt.Errorf("it contains %q twice", m.name)
		}
		seen[m.name] = true
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return members, nil
}

// property is the schema of a field, one of the protocol's primitive schemas.
type property struct {
	Type        json.RawMessage `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Format      string          `json:"format"`
	MinLength   *float64        `json:"minLength"`
	MaxLength   *float64        `json:"maxLength"`
	Minimum     *float64        `json:"minimum"`
	Maximum     *float64        `json:"maximum"`
	MinItems    *float64        `json:"minItems"`
	MaxItems    *float64        `json:"maxItems"`
	choices
	Items *choices `json:"items"`
}

// choices are the choices of a property, in any of the forms that the protocol has defined for them.
type choices struct {
	Enum      []string `json:"enum"`
	EnumNames []string `json:"enumNames"`
	OneOf     []titled `json:"oneOf"`
	AnyOf     []titled `json:"anyOf"`
}

// titled is a choice with a title.
type titled struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// options returns the choices in the order of the schema, whichever of the forms it uses.
func (c choices) options() []Option {
	var out []Option
	for i, v := range c.Enum {
		o := Option{Value: v}
		if i < len(c.EnumNames) {
			o.Title = c.EnumNames[i]
		}
		out = append(out, o)
	}
	for _, t := range append(c.OneOf[:len(c.OneOf):len(c.OneOf)], c.AnyOf...) { // append must not write into c.OneOf
		out = append(out, Option{t.Const, t.Title})
	}
	return out
}

// parseField parses one property of the schema. A property of a type that the protocol does not define, or that cannot
// be decoded, gets KindJSON.
func parseField(m member) (Field, error) {
	f := Field{Name: m.name, Kind: KindJSON}
	var p property
	if json.Unmarshal(m.value, &p) != nil {
		return f, nil
	}
	f.Title, f.Description, f.Format = p.Title, p.Description, p.Format
	var kind string
	_ = json.Unmarshal(p.Type, &kind) // a list of types does not decode, so the field stays KindJSON
	f.Options = p.options()
	switch kind {
	case "string":
		f.Kind, f.Min, f.Max = KindText, p.MinLength, p.MaxLength
		if len(f.Options) > 0 {
			f.Kind, f.Min, f.Max = KindChoice, nil, nil
		}
	case "integer":
		f.Kind, f.Min, f.Max = KindInteger, p.Minimum, p.Maximum
	case "number":
		f.Kind, f.Min, f.Max = KindNumber, p.Minimum, p.Maximum
	case "boolean":
		f.Kind = KindYesNo
	case "array":
		if p.Items != nil && len(p.Items.options()) > 0 {
			f.Kind, f.Options, f.Min, f.Max = KindChoices, p.Items.options(), p.MinItems, p.MaxItems
		}
	}
	if len(f.Options) > maxOptions {
		return f, fmt.Errorf("it has %d choices; the maximum is %d", len(f.Options), maxOptions)
	}
	if p.Default != nil && f.check(p.Default) == nil {
		f.Default = p.Default
	}
	return f, nil
}
