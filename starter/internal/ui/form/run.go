package form

import (
	"context"
	"os"
	"time"

	"charm.land/bubbles/v2/help"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/workflows/turn"
)

// ErrInterrupted means that the user pressed Ctrl-C.
var ErrInterrupted = tea.ErrInterrupted

// Run shows the dialog on the terminal in, out until the user has completed it, presses Ctrl-C (ErrInterrupted), or ctx
// ends. environ is the environment of the terminal, in the form of os.Environ.
func (d *Dialog) Run(ctx context.Context, in, out *os.File, environ []string) (turn.ElicitationResponse, error) {
	_, err := tea.NewProgram(&page{Dialog: d, help: help.New()}, tea.WithContext(ctx), tea.WithInput(in),
		tea.WithOutput(out),
		tea.WithEnvironment(environ), tea.WithoutSignalHandler()).Run()
	r, over := d.Response()
	switch {
	case over:
		return r, nil
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	}
	return r, err
}

// keyDelay is how long a form must be visible before it accepts keys. Otherwise an Enter that the user meant for
// something else could accept it.
const keyDelay = 600 * time.Millisecond

// keyDelayMsg arrives when keyDelay has passed.
type keyDelayMsg struct{}

// page is the Bubble Tea model of Run: a dialog, with the keys of its current page below it.
type page struct {
	*Dialog
	help  help.Model
	ready bool // keyDelay has passed
}

func (p *page) Init() tea.Cmd {
	return tea.Batch(p.Dialog.Init(), tea.Tick(keyDelay, func(time.Time) tea.Msg { return keyDelayMsg{} }))
}

// Update implements tea.Model. It ignores keys, except Ctrl-C, until keyDelay has passed, and quits when the user has
// completed the dialog.
func (p *page) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case keyDelayMsg:
		p.ready = true
	case tea.WindowSizeMsg:
		p.help.SetWidth(msg.Width)
	case tea.KeyPressMsg:
		switch {
		case msg.String() == "ctrl+c":
			return p, tea.Interrupt
		case !p.ready:
			return p, nil
		}
	}
	cmd := p.Dialog.Update(msg)
	if _, over := p.Response(); over {
		return p, tea.Quit
	}
	return p, cmd
}

func (p *page) View() tea.View {
	text := p.Dialog.View() // empty when the dialog is over
	if _, over := p.Response(); !over && p.ready {
		text += "\n" + p.help.ShortHelpView(p.KeyBinds())
	}
	return tea.NewView(text)
}
