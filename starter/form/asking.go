package form

import (
	"encoding/json"
	"strings"
)

// Asking asks for the fields of a form one after the other.
type Asking struct {
	form  Form
	at    int
	given values
}

// NewAsking begins with the first field.
func NewAsking(f Form) *Asking { return &Asking{form: f, given: values{}} }

// Field is the one that is asked for now; false where all were.
func (a *Asking) Field() (Field, bool) {
	if a.at >= len(a.form.Fields) {
		return Field{}, false
	}
	return a.form.Fields[a.at], true
}

// Of says which field it is, from 1, and of how many.
func (a *Asking) Of() (at, all int) { return a.at + 1, len(a.form.Fields) }

// Take takes what a person types and goes on with the next field. An empty line is the default, or nothing where the field
// may be left out. After an error the same field is asked for still.
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

// Back goes back to the field before; false where there is none.
func (a *Asking) Back() bool {
	if a.at == 0 {
		return false
	}
	a.at--
	delete(a.given, a.form.Fields[a.at].Name)
	return true
}

// Content is the answer, when all fields were asked for.
func (a *Asking) Content() (json.RawMessage, error) { return a.form.object(a.given) }
