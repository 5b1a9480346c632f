package form

import (
	"encoding/json"
	"strings"
)

// Asking asks for the fields of a form one at a time.
type Asking struct {
	form  Form
	at    int
	given values
}

// NewAsking starts with the first field.
func NewAsking(f Form) *Asking { return &Asking{form: f, given: values{}} }

// Field returns the field that is asked for now; false if all were asked for.
func (a *Asking) Field() (Field, bool) {
	if a.at >= len(a.form.Fields) {
		return Field{}, false
	}
	return a.form.Fields[a.at], true
}

// Of returns the number of the current field, from 1, and the number of all fields.
func (a *Asking) Of() (at, all int) { return a.at + 1, len(a.form.Fields) }

// Take takes a line for the current field and moves on to the next field. An empty line means the default, or no value
// if the field is optional. After an error, the current field stays the same.
func (a *Asking) Take(line string) error {
	field, asked := a.Field()
	if !asked {
		return nil
	}
	var value json.RawMessage
	switch {
	case strings.TrimSpace(line) != "":
		var err error
		if value, err = field.Parse(line); err != nil {
			return err
		}
	case field.Default != nil:
		value = field.Default
	case field.Required:
		return field.missing()
	}
	a.given[field.Name] = value
	a.at++
	return nil
}

// Back goes back to the previous field and discards its value; false if there is none.
func (a *Asking) Back() bool {
	if a.at == 0 {
		return false
	}
	a.at--
	delete(a.given, a.form.Fields[a.at].Name)
	return true
}

// Content returns the content of the response, once all fields were asked for.
func (a *Asking) Content() (json.RawMessage, error) { return a.form.object(a.given) }
