package form

import (
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Interview asks the user, line by line, for the response to an elicitation: for each field, and then whether to send
// the answer.
type Interview struct {
	elicitation turn.Elicitation
	form        Form
	at          int // the field that is asked for; after the last one, the interview asks whether to send the answer
	given       values
	refused     error // why there is nothing to send
	response    turn.ElicitationResponse
	over        bool
}

// NewInterview starts an interview. If the form cannot be read, the error says why, and the returned interview can only
// be declined or cancelled.
func NewInterview(e turn.Elicitation) (*Interview, error) {
	i := &Interview{elicitation: e, given: values{}, response: turn.ElicitationResponse{Key: e.Key}}
	if e.URL == "" {
		i.form, i.refused = Parse(e.Schema)
	}
	return i, i.refused
}

// asksField reports whether the interview asks for a field.
func (i *Interview) asksField() bool { return i.refused == nil && i.at < len(i.form.Fields) }

// Prompt describes in one line what is asked for now.
func (i *Interview) Prompt() string {
	switch {
	case i.missing():
		return "this field is required: Enter asks again, [d]ecline, or [c]ancel without an answer"
	case i.refused != nil:
		return "it cannot be answered here: [d]ecline, or [c]ancel without an answer"
	case i.asksField():
		count, field := "", i.form.Fields[i.at]
		if all := len(i.form.Fields); all > 1 {
			count = fmt.Sprintf("%d/%d ", i.at+1, all)
		}
		return count + word(field.Name, shownName) + " (" + field.takes() + ")"
	case i.elicitation.URL != "":
		return "have you opened it and finished there? [y]es, [n]o (decline)"
	case len(i.form.Fields) == 0:
		return "do you agree? [y]es, [n]o (decline)"
	}
	return "send it? [y]es, [a]gain, [d]ecline"
}

// Lines gives details of what is asked for now: the field's description and choices, or the whole answer.
func (i *Interview) Lines() []string {
	switch {
	case i.asksField():
		return i.form.Fields[i.at].Lines()[1:]
	case i.refused == nil && len(i.form.Fields) > 0:
		content, _ := i.form.object(i.given)
		return []string{termsafe.Visible(string(content))}
	}
	return nil
}

// Take takes a line. The error says what is wrong with it; the interview then asks for the same thing again.
func (i *Interview) Take(line string) error {
	if i.asksField() {
		return i.takeField(line)
	}
	switch key := strings.ToLower(strings.TrimSpace(line)); {
	case (key == "y" || key == "yes") && i.refused == nil:
		i.accept()
	case key == "" && i.missing():
		i.refused = nil
	case (key == "a" || key == "again") && i.refused == nil:
		i.at, i.given = 0, values{}
	case key == "d" || key == "decline" || key == "n" || key == "no":
		i.end(turn.ElicitationDecline)
	case key == "c" || key == "cancel":
		i.end(turn.ElicitationCancel)
	default:
		return fmt.Errorf("%q is not one of the keys", termsafe.Line(key, shownText))
	}
	return nil
}

// missing reports whether the user gave no value for a required field.
func (i *Interview) missing() bool { return errors.Is(i.refused, errMissing) }

func (i *Interview) accept() {
	i.end(turn.ElicitationAccept)
	if i.elicitation.URL == "" {
		i.response.Content, _ = i.form.object(i.given) // takeField has checked it
	}
}

func (i *Interview) end(action turn.ElicitationAction) { i.response.Action, i.over = action, true }

// takeField takes a line for the current field. An empty line means the default, or no value if the field is optional.
func (i *Interview) takeField(line string) error {
	field := i.form.Fields[i.at]
	value, err := field.valueOf(line)
	if errors.Is(err, errMissing) {
		i.refused = err
		return nil
	}
	if err != nil {
		return err
	}
	i.given[field.Name] = value
	i.at++
	if i.asksField() {
		return nil
	}
	if _, err := i.form.object(i.given); err != nil { // the whole answer is too long
		i.at, i.given = 0, values{}
		return err
	}
	if len(i.form.Fields) == 1 {
		i.accept()
	}
	return nil
}

// Response returns the response; false if the interview is not over.
func (i *Interview) Response() (turn.ElicitationResponse, bool) { return i.response, i.over }
