package form

import (
	"errors"
	"fmt"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

// stage is what an interview asks for now.
type stage int

const (
	stageField stage = iota // the next field
	stageAgree              // agreement: the form has no fields, or the elicitation is an address
	stageSend               // confirmation of the whole answer
	stageDoubt              // what an empty line meant, or what to do with a broken form
	stageOver
)

// Interview asks the user, line by line, for the response to an elicitation.
type Interview struct {
	inquiry turn.Elicitation
	form    Form
	asking  *Asking
	stage   stage
	broken  bool // the form cannot be read; the user can only decline or cancel
	reply   turn.ElicitationResponse
}

// NewInterview starts an interview. If the form cannot be read, the error says why, and the returned interview can only
// be declined or cancelled.
func NewInterview(q turn.Elicitation) (*Interview, error) {
	i := &Interview{inquiry: q, reply: turn.ElicitationResponse{Key: q.Key}}
	if q.URL != "" {
		i.stage = stageAgree
		return i, nil
	}
	var err error
	if i.form, err = Parse(q.Schema); err != nil {
		i.stage, i.broken = stageDoubt, true
		return i, err
	}
	i.asking = NewAsking(i.form)
	if len(i.form.Fields) == 0 {
		i.stage = stageAgree
	}
	return i, nil
}

// Prompt describes in one line what is asked for now.
func (i *Interview) Prompt() string {
	switch i.stage {
	case stageField:
		field, _ := i.asking.Field()
		at, all := i.asking.Of()
		count := ""
		if all > 1 {
			count = fmt.Sprintf("%d/%d ", at, all)
		}
		return count + word(field.Name, shownName) + " (" + field.takes() + ")"
	case stageAgree:
		if i.inquiry.URL != "" {
			return "were you there? [y]es, it is done; [n]o, decline"
		}
		return "[y]es, [n]o"
	case stageSend:
		return "send it? [y]es, [a]gain, [d]ecline"
	case stageDoubt:
		if i.broken {
			return "it cannot be answered here: [d]ecline (say no), [c]ancel (say nothing)"
		}
		return "nothing was said: [d]ecline (say no), [c]ancel (say nothing), Enter goes on"
	}
	return "answered"
}

// Lines gives details of what is asked for now: the field's description and choices, or the whole answer.
func (i *Interview) Lines() []string {
	switch i.stage {
	case stageField:
		field, _ := i.asking.Field()
		return field.Lines()[1:]
	case stageSend:
		content, _ := i.asking.Content()
		return strings.Split(terminal.Visible(string(content)), "\n")
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
		return i.takeKey(line, map[string]func(){"y": i.accept, "yes": i.accept, "n": i.Decline, "no": i.Decline})
	case stageSend:
		again := func() { i.asking, i.stage = NewAsking(i.form), stageField }
		return i.takeKey(line, map[string]func(){"y": i.accept, "yes": i.accept, "a": again, "again": again, "d": i.Decline, "decline": i.Decline})
	case stageDoubt:
		keys := map[string]func(){"d": i.Decline, "decline": i.Decline, "c": i.Cancel, "cancel": i.Cancel}
		if !i.broken {
			keys[""] = func() { i.stage = stageField }
		}
		return i.takeKey(line, keys)
	}
	return nil
}

func (i *Interview) takeKey(line string, keys map[string]func()) error {
	key := strings.ToLower(strings.TrimSpace(line))
	do, known := keys[key]
	if !known {
		return fmt.Errorf("%q is none of them", terminal.Line(key, shownText))
	}
	do()
	return nil
}

func (i *Interview) takeField(line string) error {
	field, _ := i.asking.Field()
	if strings.TrimSpace(line) == "" && field.Required && field.Default == nil {
		i.stage = stageDoubt
		return nil
	}
	if err := i.asking.Take(line); err != nil {
		return err
	}
	if _, more := i.asking.Field(); more {
		return nil
	}
	if _, err := i.asking.Content(); err != nil { // the whole answer is too long
		i.asking = NewAsking(i.form)
		return err
	}
	if len(i.form.Fields) > 1 {
		i.stage = stageSend
		return nil
	}
	i.accept()
	return nil
}

// Back goes back one step; false if there is none.
func (i *Interview) Back() bool {
	switch {
	case i.stage == stageDoubt && !i.broken:
		i.stage = stageField
		return true
	case i.stage == stageSend, i.stage == stageField:
		i.stage = stageField
		return i.asking.Back()
	}
	return false
}

func (i *Interview) accept() {
	i.stage, i.reply.Action = stageOver, turn.ElicitationAccept
	if i.inquiry.URL != "" {
		return
	}
	i.reply.Content, _ = i.asking.Content() // no error: takeField has checked the content, or there are no fields
}

// Decline declines the elicitation.
func (i *Interview) Decline() { i.reply.Action, i.stage = turn.ElicitationDecline, stageOver }

// Cancel cancels the elicitation without answering.
func (i *Interview) Cancel() { i.reply.Action, i.stage = turn.ElicitationCancel, stageOver }

// Reply returns the response; false if the interview is not over.
func (i *Interview) Reply() (turn.ElicitationResponse, bool) { return i.reply, i.stage == stageOver }

// Accept builds the response to an elicitation from one text or from fields. If both are empty, the response agrees to
// a form without fields and otherwise takes the defaults. An address takes no values.
func Accept(q turn.Elicitation, text string, fields []Pair) (turn.ElicitationResponse, error) {
	r := turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationAccept}
	if q.URL != "" {
		if text != "" || len(fields) > 0 {
			return r, errors.New("it sends you to an address and takes no values: say with --accept that you were there, or --decline")
		}
		return r, nil
	}
	f, err := Parse(q.Schema)
	if err != nil {
		return r, fmt.Errorf("%w; it can be declined only", err)
	}
	if text != "" {
		r.Content, err = f.Read(text)
	} else {
		r.Content, err = f.Fill(fields)
	}
	return r, err
}
