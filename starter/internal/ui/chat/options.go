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
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// Client is what a chat needs to act on its session. A client.Client implements it.
type Client interface {
	Send(ctx context.Context, in client.SendInput) (client.Turn, error)
	Decide(ctx context.Context, in client.DecideInput) ([]turn.Decision, error)
	Stop(ctx context.Context, session string) error
	Fork(ctx context.Context, in client.ForkInput) (client.Session, error)
	Compact(ctx context.Context, in client.CompactInput) (workflows.CompactResult, error)
}

// Canvases is what a chat does with the canvases of sessions: the files of their trees. An app.Canvases implements it.
type Canvases interface {
	Show(ctx context.Context, session string) (workspace.Summary, error)
	// Diff returns the changes in a file, or all changes if file is empty, and the last commit.
	Diff(ctx context.Context, session, file string) (text, commit string, err error)
	Current(ctx context.Context) string // the branch that is checked out; empty if there is none
	// Merge and Undo return a line that says what they have done.
	Merge(ctx context.Context, in workspace.MergeInput) (done string, err error)
	Undo(ctx context.Context, session string) (done string, err error)
}

// Options configure a chat.
type Options struct {
	Journal client.Journal
	Client  Client
	Session string // need not exist yet
	Person  string // the name that is recorded with decisions and answers
	Model   string // the model of new turns, for display
	// Requested is the model that the chat's messages ask for; empty means the agent's. CheckModel returns an error if
	// there is no model of this name.
	Requested  string
	CheckModel func(name string) error
	// Models returns the models that the user may choose; nil if they are not known.
	Models func() []ModelChoice
	// SeesImages reports whether the model of a message takes images; nil if that is not known.
	SeesImages func(requested string) bool
	// Chosen is a message whose Tools and ModelSettings all messages of the chat get.
	Chosen turn.UserMessage
	// Agent is the agent of its turns; empty means the worker's default.
	Agent string
	// Workspace returns the folder in which the file tools act for a session, or "" if it is not on this machine.
	// Approvals show changes with lines from its files. Nil if the worker runs on another machine.
	Workspace func(session string) string
	// Canvases are what the sessions have changed in a git repository. Nil if sessions share their files, or if the worker
	// runs on another machine.
	Canvases Canvases
	// Waits returns in a few words what keeps a session's turn, or a message to the session, from being worked on; "" if
	// that is not known. Nil if it cannot be asked.
	Waits func(ctx context.Context, session string) string
	// Note is the first line that the chat shows; empty for none.
	Note string
	// Link returns the address of a turn in Temporal's Web UI; nil if no Web UI is known.
	Link func(session, turn string) string
	// History is the file that keeps typed texts for the arrow keys; empty for none.
	History string
	Color   bool
	In, Out *os.File // the terminal
	Environ []string // the terminal's environment: TERM and the like
	// Signals end the chat as detaching does. Failed reports the end of a worker in this process. Both may be nil.
	Signals <-chan os.Signal
	Failed  <-chan error
}

// Left describes the state in which the user left a chat.
type Left struct {
	Session string // the last session that was shown
	Begun   bool   // the session exists, or a message to it was typed
	Running bool   // its turn is still running
	Waiting bool   // that turn waits for the user
	// Unsent are messages that were typed but not accepted.
	Unsent []string
}

// Run shows a chat on the terminal until the user leaves it or one of Options.Signals arrives, and returns the state in
// which the user left it. A running turn continues. The end of ctx cancels the chat's requests, but does not end it.
func Run(ctx context.Context, o Options) (Left, error) {
	ctx, cancel := context.WithCancel(ctx)
	m := NewModel(ctx, o)
	profile := colorprofile.NoTTY
	if o.Color {
		profile = max(colorprofile.Detect(o.Out, o.Environ), colorprofile.ANSI)
	}
	p := tea.NewProgram(m, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ),
		tea.WithColorProfile(profile),
		tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	watchEnded := make(chan struct{})
	go func() {
		defer close(watchEnded)
		m.watch(ctx, p.Send)
	}()
	_, err := p.Run()
	cancel()
	<-watchEnded
	m.close()
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return m.leftState(), fmt.Errorf("running the chat: %w", err)
	}
	return m.leftState(), nil
}

// framesPerSecond bounds the output to a terminal, which may be at the far end of a slow line.
const framesPerSecond = 30

// watch waits for a signal or for the end of the worker in this process, and sends the first of them to the chat.
func (m *Model) watch(ctx context.Context, send func(tea.Msg)) {
	select {
	case <-ctx.Done():
	case <-m.o.Signals:
		send(leaveMsg{})
	case err := <-m.o.Failed:
		send(failedMsg{err})
	}
}

// leaveMsg ends the chat; failedMsg reports that the worker of this process has ended.
type leaveMsg struct{}
type failedMsg struct{ err error }

// callWithin is the timeout of a request to the session's workflow or the journal.
const callWithin = time.Minute
