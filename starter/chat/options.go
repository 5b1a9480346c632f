package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
)

// Client is what a chat does to its session. A client.Client has it.
type Client interface {
	Send(ctx context.Context, in client.SendInput) (client.Turn, error)
	Approve(ctx context.Context, in client.DecideInput) (client.DecideResult, error)
	Deny(ctx context.Context, in client.DecideInput) (client.DecideResult, error)
	Answer(ctx context.Context, in client.AnswerInput) error
	Respond(ctx context.Context, in client.RespondInput) error
	Stop(ctx context.Context, session string) error
	Fork(ctx context.Context, in client.ForkInput) (journal.SessionRecord, error)
}

// Options are what a chat is about and where it runs.
type Options struct {
	Store   journal.Store
	Client  Client
	Session string // need not exist yet
	Person  string // who decides and answers; recorded with it
	Model   string // of new turns, for people
	// Link leads to a turn in Temporal's Web UI; the turn is empty where none is known.
	Link func(session, turn string) string
	// History is a file that keeps what was typed, for the arrow keys; empty for none.
	History string
	Color   bool
	In, Out *os.File // the terminal
	Environ []string // of the terminal: TERM and the like
	// Signals end the chat as detaching does; Failed reports the end of a worker that lives in this process. Both may be nil.
	Signals <-chan os.Signal
	Failed  <-chan error
}

// Left is how a chat was left.
type Left struct {
	Session string // the last one
	Begun   bool   // something was said in it
	Running bool   // a turn of it goes on
	Waiting bool   // that turn waits for a person
	// Unsent are messages that were typed and had not been accepted.
	Unsent []string
}

// Run shows a chat until its person leaves it. Turns that run go on.
func Run(ctx context.Context, o Options) (Left, error) {
	ctx, cancel := context.WithCancel(ctx)
	m := NewModel(ctx, o)
	profile := colorprofile.Ascii
	if o.Color {
		profile = colorprofile.ANSI
	}
	p := tea.NewProgram(m, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithColorProfile(profile),
		tea.WithFilter(m.filter), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		m.watch(ctx, p.Send)
	}()
	_, err := p.Run()
	cancel()
	<-watched
	m.close()
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return m.left(), fmt.Errorf("running the chat: %w", err)
	}
	return m.left(), nil
}

// framesPerSecond bounds what is sent to a terminal, which may be at the far end of a slow line.
const framesPerSecond = 30

// watch passes on what happens to the process.
func (m *Model) watch(ctx context.Context, send func(tea.Msg)) {
	select {
	case <-ctx.Done():
	case <-m.o.Signals:
		send(leaveMsg{})
	case err := <-m.o.Failed:
		send(failedMsg{err})
	}
}

// leaveMsg ends the chat; failedMsg says that the worker of this process is gone.
type leaveMsg struct{}
type failedMsg struct{ err error }

// sayWithin bounds a request to the session's workflow.
const sayWithin = time.Minute
