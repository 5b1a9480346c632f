package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// stage is what an interview asks for now.
type stage int

const (
	stageField   stage = iota // the next field
	stageAgree                // agreement: the form has no fields, or the elicitation is an address
	stageConfirm              // confirmation of the whole answer
	stageEmpty                // what an empty line meant, or what to do with a form that cannot be read
	stageOver
)

// Interview asks the user, line by line, for the response to an elicitation.
type Interview struct {
	elicitation turn.Elicitation
	form        Form
	at          int // the field that is asked for
	given       values
	stage       stage
	broken      bool // the form cannot be read; the user can only decline or cancel
	response    turn.ElicitationResponse
}

// NewInterview starts an interview. If the form cannot be read, the error says why, and the returned interview can only
// be declined or cancelled.
func NewInterview(e turn.Elicitation) (*Interview, error) {
	i := &Interview{elicitation: e, given: values{}, response: turn.ElicitationResponse{Key: e.Key}}
	if e.URL != "" {
		i.stage = stageAgree
		return i, nil
	}
	var err error
	if i.form, err = Parse(e.Schema); err != nil {
		i.stage, i.broken = stageEmpty, true
		return i, err
	}
	if len(i.form.Fields) == 0 {
		i.stage = stageAgree
	}
	return i, nil
}

func (i *Interview) field() Field { return i.form.Fields[i.at] }

// Prompt describes in one line what is asked for now.
func (i *Interview) Prompt() string {
	switch i.stage {
	case stageField:
		count := ""
		if all := len(i.form.Fields); all > 1 {
			count = fmt.Sprintf("%d/%d ", i.at+1, all)
		}
		return count + word(i.field().Name, shownName) + " (" + i.field().takes() + ")"
	case stageAgree:
		if i.elicitation.URL != "" {
			return "have you opened it and finished there? [y]es, [n]o (decline)"
		}
		return "do you agree? [y]es, [n]o (decline)"
	case stageConfirm:
		return "send it? [y]es, [a]gain, [d]ecline"
	case stageEmpty:
		if i.broken {
			return "it cannot be answered here: [d]ecline, or [c]ancel without an answer"
		}
		return "this field is required: Enter asks again, [d]ecline, or [c]ancel without an answer"
	}
	return "answered"
}

// Lines gives details of what is asked for now: the field's description and choices, or the whole answer.
func (i *Interview) Lines() []string {
	switch i.stage {
	case stageField:
		return i.field().Lines()[1:]
	case stageConfirm:
		content, _ := i.form.object(i.given)
		return strings.Split(termsafe.Visible(string(content)), "\n")
	}
	return nil
}

// Take takes a line. The error says what is wrong with it. After an error, the interview asks for the same thing again,
// or for the first field if the whole answer is too long.
func (i *Interview) Take(line string) error {
	switch i.stage {
	case stageField:
		return i.takeField(line)
	case stageAgree:
		return choose(line, map[string]func(){"y": i.accept, "yes": i.accept, "n": i.Decline, "no": i.Decline})
	case stageConfirm:
		return choose(line, map[string]func(){"y": i.accept, "yes": i.accept, "a": i.restart, "again": i.restart,
			"d": i.Decline, "decline": i.Decline})
	case stageEmpty:
		keys := map[string]func(){"d": i.Decline, "decline": i.Decline, "c": i.Cancel, "cancel": i.Cancel}
		if !i.broken {
			keys[""] = func() { i.stage = stageField }
		}
		return choose(line, keys)
	}
	return nil
}

// choose calls the function of the key that a line names.
func choose(line string, keys map[string]func()) error {
	key := strings.ToLower(strings.TrimSpace(line))
	do, known := keys[key]
	if !known {
		return fmt.Errorf("%q is not one of the keys", termsafe.Line(key, shownText))
	}
	do()
	return nil
}

func (i *Interview) restart() { i.at, i.given, i.stage = 0, values{}, stageField }

// takeField takes a line for the current field. An empty line means the default, or no value if the field is optional.
func (i *Interview) takeField(line string) error {
	field := i.field()
	value := field.Default
	if strings.TrimSpace(line) != "" {
		var err error
		if value, err = field.Parse(line); err != nil {
			return err
		}
	} else if field.Required && value == nil {
		i.stage = stageEmpty
		return nil
	}
	i.given[field.Name] = value
	i.at++
	if i.at < len(i.form.Fields) {
		return nil
	}
	if _, err := i.form.object(i.given); err != nil { // the whole answer is too long
		i.restart()
		return err
	}
	if i.stage = stageConfirm; len(i.form.Fields) == 1 {
		i.accept()
	}
	return nil
}

// Back goes back one step and discards that field's value; false if there is none.
func (i *Interview) Back() bool {
	switch {
	case i.stage == stageEmpty && !i.broken:
		i.stage = stageField
		return true
	case i.stage == stageOver, i.stage == stageAgree, i.at == 0:
		return false
	}
	i.at--
	i.stage = stageField
	delete(i.given, i.field().Name)
	return true
}

func (i *Interview) accept() {
	i.stage, i.response.Action = stageOver, turn.ElicitationAccept
	if i.elicitation.URL != "" {
		return
	}
	i.response.Content, _ = i.form.object(i.given) // no error: takeField has checked the content, or there are no fields
}

// Decline declines the elicitation.
func (i *Interview) Decline() { i.response.Action, i.stage = turn.ElicitationDecline, stageOver }

// Cancel cancels the elicitation without answering.
func (i *Interview) Cancel() { i.response.Action, i.stage = turn.ElicitationCancel, stageOver }

// Response returns the response; false if the interview is not over.
func (i *Interview) Response() (turn.ElicitationResponse, bool) {
	return i.response, i.stage == stageOver
}

// Accept builds the response to an elicitation from one text or from fields. If both are empty, the response agrees to
// a form without fields and otherwise takes the defaults. An address takes no values.
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
