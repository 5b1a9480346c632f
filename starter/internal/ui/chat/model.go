package chat

import (
	"context"
	"fmt"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/spinner"
	"charm.land/bubbles/v2/textarea"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Model is the chat as Bubble Tea runs it. It is used through a pointer.
type Model struct {
	ctx   context.Context
	o     Options
	theme theme
	now   func() time.Time
	later func(time.Duration, func(time.Time) tea.Msg) tea.Cmd // tea.Tick

	width, height int

	session string
	begun   bool   // the journal has the session
	model   string // the model of the last inference; of new turns if there was none
	feed    *feed
	turn    live
	used    turn.Usage // by the session's turns that have ended
	outbox  outbox

	entries []*entry
	changed bool  // an entry was added or must be laid out again
	stale   bool  // an entry has changed but is not laid out again yet
	rows    []int // the index of the entry of each line of the conversation
	talk    viewport.Model
	open    bool // the details of new calls are shown

	pending   []*pendingRequest
	subagents *subagents // nil until the session has called an agent
	focused   bool       // keys go to the current request
	typing    bool       // the user has switched from the request to the input
	watched   string     // the key of the request whose calm period has begun
	reason    string     // the key of the request to deny, while the user types the reason
	draft     string     // the input before the user began to type a reason

	input   textarea.Model
	pastes  pastes
	history *history
	menu    menu
	pressed time.Time // when the last key was pressed

	spinner  spinner.Model
	spinning bool
	help     help.Model

	notice      string
	noticeCount int
	interrupted time.Time // when the first Ctrl-C of two was pressed

	leaving bool
	listed  []string // the sessions that /sessions has shown
}

// live is the running turn.
type live struct {
	id    string
	began time.Time
	step  int
	usage turn.Usage
	calls map[string]*entry // the running calls
	// answer is the entry of the step's text, which is still growing; nil if there is none.
	answer *entry
	text   growing
	// thinking reports that reasoning arrived after the last text.
	thinking bool
	stopping bool
}

// NewModel returns a chat that opens its session when it starts. When ctx ends, its reads and its calls end.
func NewModel(ctx context.Context, o Options) *Model {
	m := &Model{ctx: ctx, o: o, now: time.Now, later: tea.Tick, session: o.Session, model: o.Model,
		history: loadHistory(o.History), input: newInput(), menu: newMenu(), talk: newTalk(), help: help.New(),
		spinner: spinner.New(spinner.WithSpinner(spinner.MiniDot))}
	m.setTheme(true)
	return m
}

func (m *Model) setTheme(dark bool) {
	m.theme = newTheme(m.o.Color, dark)
	m.help.Styles = m.theme.help
	m.changeAll()
}

// close stops reading the journal.
func (m *Model) close() {
	if m.feed != nil {
		m.feed.close()
	}
}

func (m *Model) left() Left {
	return Left{Session: m.session, Begun: m.begun || len(m.outbox.list) > 0, Running: m.turn.id != "",
		Waiting: len(m.pending) > 0, Unsent: m.outbox.unsent()}
}

// Init opens the session.
func (m *Model) Init() tea.Cmd {
	return tea.Batch(m.opening(m.o.Session), m.input.Focus(), tea.RequestBackgroundColor)
}

// Update handles a key, a size, what the feed has read, or the result of a call to the session's workflow.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	before := m.noticeCount
	cmds := []tea.Cmd{m.take(msg), m.sendNext(), m.watchRequest(), m.spin()}
	if count := m.noticeCount; count != before {
		cmds = append(cmds, m.later(noticeFor, func(time.Time) tea.Msg { return noticeMsg{count} }))
	}
	m.layOut()
	if m.leaving {
		cmds = append(cmds, tea.Quit)
	}
	return m, tea.Batch(cmds...)
}

func (m *Model) take(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg)
	case tea.BackgroundColorMsg:
		m.setTheme(msg.IsDark())
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.MouseWheelMsg:
		return m.scroll(msg)
	case tea.MouseClickMsg:
		m.click(msg)
	case tea.PasteMsg:
		return m.paste(msg)
	case filesMsg:
		m.menu.files = msg
		m.complete()
	case openedMsg:
		return m.openSession(msg)
	case itemsMsg:
		return m.showFed(msg)
	case sentMsg:
		m.sent(msg)
	case editedMsg:
		return m.edited(msg)
	case decidedMsg:
		m.decided(msg)
	case subagentsMsg:
		return m.showSubagents(msg)
	case lookMsg:
		if msg.watch == m.subagents {
			return m.lookForSubagents()
		}
	case calmMsg:
		return m.endCalm(msg)
	case replyMsg:
		return m.replied(msg)
	case leaveMsg:
		m.leaving = true
	case failedMsg:
		m.printError("the worker of this command has ended (%v); turns wait for another worker", msg.err)
	case noticeMsg:
		if msg.count == m.noticeCount {
			m.notice = ""
		}
	case spinner.TickMsg:
		return m.spun(msg)
	default:
		return m.updateForm(msg)
	}
	return nil
}

// showFed shows what the feed has read and waits for more.
func (m *Model) showFed(msg itemsMsg) tea.Cmd {
	if msg.feed != m.feed {
		return nil // from a session that the chat has left
	}
	if msg.err != nil {
		m.printError("reading the journal: %v (retrying; turns continue)", msg.err)
	}
	looks := m.subagents
	for _, i := range msg.items {
		m.showItem(i)
	}
	if m.subagents != looks { // the first call of an agent
		return tea.Batch(m.feed.next, m.lookForSubagents())
	}
	return m.feed.next
}

func (m *Model) resize(msg tea.WindowSizeMsg) {
	if msg.Width <= 0 || msg.Height <= 0 {
		return
	}
	m.width, m.height, m.changed = msg.Width, msg.Height, true
	m.fitInput()
}

// working reports that the chat waits for a turn, so that the spinner moves and the clock counts.
func (m *Model) working() bool { return m.turn.id != "" || len(m.outbox.list) > 0 }

// spin starts the spinner.
func (m *Model) spin() tea.Cmd {
	if m.spinning || !m.working() && !m.stale {
		return nil
	}
	m.spinning = true
	tick := m.spinner.Tick
	return m.later(m.spinner.Spinner.FPS, func(time.Time) tea.Msg { return tick() })
}

func (m *Model) spun(msg spinner.TickMsg) tea.Cmd {
	m.spinning = false
	m.changed = m.changed || m.stale
	m.spinner, _ = m.spinner.Update(msg) // spin schedules the next tick
	return nil
}

// noticeFor is how long a hint stays visible.
const noticeFor = 4 * time.Second

// hint shows a hint below the status. It replaces the previous hint, and disappears at the next key.
func (m *Model) hint(format string, args ...any) {
	m.notice = termsafe.Line(fmt.Sprintf(format, args...), 200)
	m.noticeCount++
}

// noticeMsg removes a hint.
type noticeMsg struct{ count int }

// note shows a note by the chat itself, and printError an error.
func (m *Model) note(format string, args ...any) { m.addText(entryNote, fmt.Sprintf(format, args...)) }

func (m *Model) printError(format string, args ...any) {
	m.addText(entryFault, fmt.Sprintf(format, args...))
}
