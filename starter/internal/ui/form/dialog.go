package form

import (
	"encoding/json"
	"fmt"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Dialog asks the user for the response to an elicitation: one page for each field, and a last one that sends the
// answer or declines.
type Dialog struct {
	elicitation turn.Elicitation
	form        Form
	pages       *huh.Form
	texts       []string // by field: the text that the user typed
	chosen      []int    // by field: the index of the chosen option, or noChoice
	several     [][]int  // by field of KindChoices: the indexes of the chosen options
	action      turn.ElicitationAction
}

// noChoice is the index of the option "(no value)".
const noChoice = -1

// NewDialog returns a dialog for an elicitation. If the form of the elicitation cannot be parsed, the user can only
// decline or cancel.
func NewDialog(e turn.Elicitation) *Dialog {
	d := &Dialog{elicitation: e, action: turn.ElicitationAccept}
	var parseErr error
	if e.URL == "" {
		d.form, parseErr = Parse(e.Schema)
	}
	n := len(d.form.Fields)
	d.texts, d.chosen, d.several = make([]string, n), make([]int, n), make([][]int, n)
	var groups []*huh.Group
	for i, f := range d.form.Fields {
		groups = append(groups, huh.NewGroup(d.page(i, f)))
	}
	keys := huh.NewDefaultKeyMap()
	disabled := key.NewBinding(key.WithDisabled())
	keys.Quit, keys.Select.Filter, keys.MultiSelect.Filter = disabled, disabled, disabled
	d.pages = huh.NewForm(append(groups, huh.NewGroup(d.lastPage(parseErr != nil)))...).WithShowHelp(false).
		WithTheme(huh.ThemeFunc(huh.ThemeBase16)).WithKeyMap(keys)
	return d
}

// page returns the page that asks for the field f, which has the index i. It checks a text, or how many choices are
// taken, when the user leaves it; each option of a field that takes one is valid.
func (d *Dialog) page(i int, f Field) huh.Field {
	title, description := word(f.Name, shownName)+" ("+f.takes()+")", word(f.Description, shownWords)
	if n := len(d.form.Fields); n > 1 {
		title = fmt.Sprintf("%d/%d %s", i+1, n, title)
	}
	check := func() error { _, err := d.value(i); return err }
	switch f.Kind {
	case KindYesNo, KindChoice:
		options := f.choices()
		d.chosen[i] = f.defaultChoice(options)
		return huh.NewSelect[int]().Title(title).Description(description).Options(options...).Value(&d.chosen[i])
	case KindChoices:
		d.several[i] = f.defaultChoices()
		options := f.choices()
		// The height includes the title and the description: without two more rows, huh would hide options.
		return huh.NewMultiSelect[int]().Title(title).Description(description).Options(options...).Value(&d.several[i]).
			Height(len(options) + 2).Validate(func(picked []int) error { d.several[i] = picked; return check() })
	}
	return huh.NewInput().Title(title).Description(description).Value(&d.texts[i]).
		Validate(func(text string) error { d.texts[i] = text; return check() })
}

// lastPage returns the page that shows the whole answer and asks whether to send it, to decline or to cancel. If the
// form is unreadable, the user cannot send an answer.
func (d *Dialog) lastPage(unreadable bool) huh.Field {
	question, send := "send it?", "yes, send it"
	switch {
	case d.elicitation.URL != "":
		question, send = "have you opened it and finished there?", "yes"
	case len(d.form.Fields) == 0:
		question, send = "do you agree?", "yes"
	}
	options := []huh.Option[turn.ElicitationAction]{huh.NewOption(send, turn.ElicitationAccept)}
	if unreadable {
		question, options, d.action = "it cannot be answered here", nil, turn.ElicitationDecline
	}
	options = append(options, huh.NewOption("no, decline", turn.ElicitationDecline),
		huh.NewOption("cancel without an answer", turn.ElicitationCancel))
	answer := []any{&d.texts, &d.chosen, &d.several} // all that the preview depends on
	return huh.NewSelect[turn.ElicitationAction]().Title(question).DescriptionFunc(d.preview, answer).
		Options(options...).Value(&d.action).Validate(func(a turn.ElicitationAction) error {
		if a != turn.ElicitationAccept {
			return nil
		}
		_, err := d.content()
		return err
	})
}

// preview returns the whole answer as JSON, or the error if it is not valid. A form without fields has no preview.
func (d *Dialog) preview() string {
	if len(d.form.Fields) == 0 {
		return ""
	}
	content, err := d.content()
	if err != nil {
		return termsafe.Line(err.Error(), shownList)
	}
	return termsafe.Visible(string(content))
}

// choices returns the options of a field for the dialog. The value of each is its index: for yes or no, 0 means yes. An
// optional field without a default also has the option "(no value)", which is the last one.
func (f Field) choices() []huh.Option[int] {
	var out []huh.Option[int]
	if f.Kind == KindYesNo {
		out = append(out, huh.NewOption("yes", 0), huh.NewOption("no", 1))
	}
	for i, o := range f.Options {
		out = append(out, huh.NewOption(o.label(), i))
	}
	if f.Kind != KindChoices && !f.Required && f.Default == nil {
		out = append(out, huh.NewOption("(no value)", noChoice))
	}
	return out
}

// defaultChoice returns the value of the option that is selected at first: the field's default, or else "(no value)" if
// there is such an option, or else the first one.
func (f Field) defaultChoice(options []huh.Option[int]) int {
	for _, o := range options {
		if v, err := f.choiceValue(o.Value); err == nil && f.Default != nil && string(v) == string(f.Default) {
			return o.Value
		}
	}
	return min(options[0].Value, options[len(options)-1].Value) // the last option may be noChoice, which is less than 0
}

// defaultChoices returns the indexes of the options that are in the default of a field of KindChoices.
func (f Field) defaultChoices() []int {
	defaults, _ := decodedAs[[]string](f.Default)
	var out []int
	for i, o := range f.Options {
		for _, value := range defaults {
			if o.Value == value {
				out = append(out, i)
			}
		}
	}
	return out
}

// choiceValue returns the JSON value for the index of a chosen option, nil for noChoice.
func (f Field) choiceValue(chosen int) (json.RawMessage, error) {
	switch {
	case chosen == noChoice:
		return nil, nil
	case f.Kind == KindYesNo:
		return marshal(chosen == 0)
	}
	return marshal(f.Options[chosen].Value)
}

// value returns the JSON value that the user has given for the field i, nil if there is none. An optional field without
// a text or without chosen options has its default. The error tells the user what is wrong with the value.
func (d *Dialog) value(i int) (json.RawMessage, error) {
	f := d.form.Fields[i]
	switch {
	case f.Kind == KindYesNo || f.Kind == KindChoice:
		return f.choiceValue(d.chosen[i])
	case f.Kind == KindChoices && (len(d.several[i]) > 0 || f.Required || f.Default != nil):
		picked := []string{}
		for _, n := range d.several[i] {
			picked = append(picked, f.Options[n].Value)
		}
		value, err := marshal(picked)
		if err == nil {
			err = f.check(value)
		}
		return value, err
	}
	return f.valueOf(d.texts[i])
}

// content returns the whole answer as a JSON object.
func (d *Dialog) content() (json.RawMessage, error) {
	given := values{}
	for i, f := range d.form.Fields {
		value, err := d.value(i)
		if err != nil {
			return nil, err
		}
		given[f.Name] = value
	}
	return d.form.object(given)
}

// Init starts the dialog.
func (d *Dialog) Init() tea.Cmd { return d.pages.Init() }

// Update passes a message to the dialog.
func (d *Dialog) Update(msg tea.Msg) tea.Cmd {
	_, cmd := d.pages.Update(msg)
	return cmd
}

// Resize lays out the dialog for a number of columns and rows.
func (d *Dialog) Resize(columns, rows int) *Dialog {
	d.pages.WithWidth(columns).WithHeight(rows)
	return d
}

// View renders the current page.
func (d *Dialog) View() string { return d.pages.View() }

// KeyBinds returns the keys of the current page.
func (d *Dialog) KeyBinds() []key.Binding { return d.pages.KeyBinds() }

// Response returns the response, and false if the user has not completed the dialog.
func (d *Dialog) Response() (turn.ElicitationResponse, bool) {
	r := turn.ElicitationResponse{Key: d.elicitation.Key, Action: d.action}
	if d.pages.State != huh.StateCompleted {
		return r, false
	}
	if d.action == turn.ElicitationAccept && d.elicitation.URL == "" {
		r.Content, _ = d.content() // the last page has checked it
	}
	return r, true
}

// Decline returns the response that declines an elicitation.
func Decline(e turn.Elicitation) turn.ElicitationResponse {
	return turn.ElicitationResponse{Key: e.Key, Action: turn.ElicitationDecline}
}
