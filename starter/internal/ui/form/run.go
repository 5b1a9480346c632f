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

// Run shows the dialog on a terminal until the user has answered, presses Ctrl-C, or ctx ends.
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

// calm is how long a form must be visible before it takes keys. Otherwise the Enter of a line that the user is typing
// could accept it.
const calm = 600 * time.Millisecond

// calmMsg arrives when calm has passed.
type calmMsg struct{}

// page is a dialog on a terminal of its own, with the keys of the current page below it.
type page struct {
	*Dialog
	help  help.Model
	ready bool // calm has passed
}

func (p *page) Init() tea.Cmd {
	return tea.Batch(p.Dialog.Init(), tea.Tick(calm, func(time.Time) tea.Msg { return calmMsg{} }))
}

func (p *page) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case calmMsg:
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
	text := p.Dialog.View() // empty when it is over
	if _, over := p.Response(); !over && p.ready {
		text += "\n" + p.help.ShortHelpView(p.KeyBinds())
	}
	return tea.NewView(text)
}
