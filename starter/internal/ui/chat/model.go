package chat

import (
	"context"
	"fmt"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Model is the chat as Bubble Tea runs it. It is used through a pointer.
type Model struct {
	ctx     context.Context
	o       Options
	palette palette
	now     func() time.Time
	later   func(time.Duration, func(time.Time) tea.Msg) tea.Cmd // tea.Tick

	width, height int
	markdown      *markdown
	resized       int // counts sizes, so that only the last of a series is painted

	session string
	begun   bool // the journal has the session
	feed    *feed
	turn    live
	used    turn.Usage // by the turns that ended while the chat was open
	outbox  outbox

	pending  []pendingRequest
	deciding bool   // keys decide the first of the waits
	watched  string // the key of the request whose calm period has begun
	reason   string // the key of the request to deny, while the user types the reason

	input   textarea.Model
	pastes  pastes
	history *history
	pressed time.Time // when the last key was pressed

	notice      string
	noticeCount int
	interrupted time.Time // when the first Ctrl-C of two was pressed
	ticking     bool

	tail       []entry
	tailSize   int
	queue      []string
	drawn      bool
	flushing   bool
	repainting bool

	view  tea.View
	floor int // rows of the last view; 0 after something was printed

	leaving  bool
	quitting bool
	listed   []string // the sessions that /sessions has shown
}

// NewModel returns a chat that opens its session when it starts. When ctx ends, its reads and its calls end.
func NewModel(ctx context.Context, o Options) *Model {
	m := &Model{ctx: ctx, o: o, palette: palette(o.Color), now: time.Now, later: tea.Tick, session: o.Session,
		history: loadHistory(o.History)}
	m.input = newInput()
	m.markdown = newMarkdown(m.palette, 80)
	return m
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
func (m *Model) Init() tea.Cmd { return tea.Batch(m.opening(m.o.Session), m.input.Focus()) }

// Update handles a key, a size, what the feed has read, or the result of a call to the session's workflow.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	before := m.noticeCount
	cmds := []tea.Cmd{m.take(msg), m.sendNext(), m.watchRequest(), m.flush(), m.tick()}
	if count := m.noticeCount; count != before {
		cmds = append(cmds, m.later(noticeFor, func(time.Time) tea.Msg { return noticeMsg{count} }))
	}
	m.compose()
	if m.leaving && (len(m.queue) == 0 || !m.drawn) && !m.flushing && !m.quitting {
		m.quitting = true
		cmds = append(cmds, tea.Quit)
	}
	return m, tea.Batch(cmds...)
}

func (m *Model) take(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return m.resize(msg)
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.paste(msg)
	case openedMsg:
		return m.open(msg)
	case itemsMsg:
		return m.showFed(msg)
	case sentMsg:
		m.sent(msg)
	case decidedMsg:
		m.decided(msg)
	case calmMsg:
		return m.endCalm(msg)
	case replyMsg:
		return m.replied(msg)
	case leaveMsg:
		m.leave()
	case failedMsg:
		m.printError("the worker of this command has ended (%v); turns wait for another worker", msg.err)
	case drawnMsg:
		m.drawn = true
	case paintMsg:
		return m.paint(msg)
	case noticeMsg:
		m.forget(msg)
	case tickMsg:
		m.ticking = false
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
	m.show(msg.items)
	return m.feed.next
}

// settle is how long a terminal's size must stay the same before the screen is painted for it.
const settle = 120 * time.Millisecond

// paintMsg asks the model to paint the screen for a size.
type paintMsg struct{ size int }

func (m *Model) resize(msg tea.WindowSizeMsg) tea.Cmd {
	first := m.width == 0
	if msg.Width <= 0 || msg.Height <= 0 || msg.Width == m.width && msg.Height == m.height {
		return nil
	}
	m.width, m.height, m.floor = msg.Width, msg.Height, 0
	m.markdown = newMarkdown(m.palette, m.cols())
	m.fitInput()
	m.resized++
	size := m.resized
	if first {
		for _, e := range m.tail {
			m.queue = append(m.queue, e.lines(m.palette, m.markdown)...)
		}
		return m.later(firstFrames, func(time.Time) tea.Msg { return drawnMsg{} })
	}
	return m.later(settle, func(time.Time) tea.Msg { return paintMsg{size} })
}

func (m *Model) paint(msg paintMsg) tea.Cmd {
	if msg.size != m.resized || m.leaving || !m.drawn {
		return nil
	}
	return m.repaint()
}

// tickMsg arrives every second while a turn runs, for the clock in the status. It arrives sooner if text waits to be
// laid out.
type tickMsg struct{}

func (m *Model) tick() tea.Cmd {
	if m.ticking || m.turn.id == "" {
		return nil
	}
	m.ticking = true
	after := time.Second
	if m.turn.shown.stale {
		after = max(m.turn.shown.until.Sub(m.now()), time.Second/framesPerSecond)
	}
	return m.later(after, func(time.Time) tea.Msg { return tickMsg{} })
}

// noticeFor is how long a hint stays visible.
const noticeFor = 4 * time.Second

// hint shows a hint below the input. It replaces the previous hint.
func (m *Model) hint(format string, args ...any) {
	m.notice = termsafe.Line(fmt.Sprintf(format, args...), 200)
	m.noticeCount++
}

// noticeMsg removes a hint.
type noticeMsg struct{ count int }

func (m *Model) forget(msg noticeMsg) {
	if msg.count == m.noticeCount {
		m.notice = ""
	}
}

// note prints a note by the chat itself, and trouble an error.
func (m *Model) note(format string, args ...any) {
	m.printText(entryNote, fmt.Sprintf(format, args...))
}

func (m *Model) printError(format string, args ...any) {
	m.printText(entryFault, fmt.Sprintf(format, args...))
}

// leave ends the chat once everything is printed. The blank line separates the chat from the program's later output.
func (m *Model) leave() {
	if !m.leaving {
		m.leaving = true
		m.print(entry{})
	}
}
