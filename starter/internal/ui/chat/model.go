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

	"github.com/everturn/everturn/client"
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
	begun   bool        // the journal has the session
	model   string      // the model of the last inference; that of new turns if there was none
	feed    *feed       // nil until the first session is open
	turn    runningTurn // its id is empty if no turn is running
	used    turn.Usage  // by the session's turns that have ended
	outbox  outbox

	entries []*entry
	changed bool           // an entry was added or must be laid out again
	stale   bool           // an entry has changed, but its new layout is delayed: see renderPause
	reveal  *entry         // the next layout scrolls to its beginning; nil: none
	rows    []int          // by line of the conversation: the index of its entry
	talk    viewport.Model // the part of the conversation that is on the screen
	open    bool           // the details of new calls, and all of new user messages, are shown

	pending   []*pendingRequest // the first one is the current request
	subagents *subagents        // nil until the session has called an agent
	focused   bool              // keys go to the current request
	typing    bool              // the user has switched from the request to the input
	watched   string            // the key of the request whose calm period has begun
	reason    string            // the key of the request to deny, while the user types the reason
	draft     string            // the input before the user began to type a reason

	input   textarea.Model
	pastes  pastes
	history *history
	shell   *shellCommand // the user's command that is running; nil: none
	// commands are those of which the next message includes the output.
	commands []commandOutput
	menu     menu
	pressed  time.Time // when the last key was pressed

	outage outage
	waits  waits

	spinner  spinner.Model
	spinning bool // the next tick of the spinner is scheduled
	help     help.Model

	notice      string    // the hint below the status; empty: none
	noticeCount int       // the number of hints so far
	interrupted time.Time // when Ctrl-C was pressed, if a second one would stop the turn or leave; zero otherwise

	leaving bool
	listed  []client.Session // the sessions that /sessions has listed, in the order of their numbers
	toMerge toMerge
	// filesChanged means that a turn has ended which has changed files of the session's tree.
	filesChanged bool
	// forkPoints are the points at which /fork offers to fork the session.
	forkPoints []choice
}

// runningTurn is the running turn, as far as the feed has read it.
type runningTurn struct {
	id    string
	began time.Time
	step  int
	usage turn.Usage
	calls map[string]*entry // the running calls
	// answer is the entry of the step's text, which is still growing; nil if there is none.
	answer *entry
	text   growing
	// thinking means that reasoning arrived after the last text.
	thinking bool
	// reasoning is the entry of the step's reasoning, which is still growing; nil if there is none.
	reasoning     *entry
	reasoningStep int
	thought       growing
	waiting       *entry // why the turn waits for its model; nil if it has not waited
	stopping      bool   // the user has stopped the turn
	changed       bool   // it has changed files of the session's tree
	// unread are the messages of this chat that were merged into the turn since the model's last output.
	unread []outgoing
}

// NewModel returns a chat that opens its session when it starts. The end of ctx cancels its reads of the journal and
// its requests to the session's workflow.
func NewModel(ctx context.Context, o Options) *Model {
	m := &Model{ctx: ctx, o: o, now: time.Now, later: tea.Tick, session: o.Session, model: o.Model,
		history: loadHistory(o.History), input: newInput(), menu: newMenu(), talk: newTalk(), help: help.New(),
		spinner: spinner.New(spinner.WithSpinner(spinner.MiniDot))}
	m.setTheme(true)
	if o.Note != "" {
		m.addText(entryError, o.Note)
	}
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

// leftState returns the state in which the user leaves the chat.
func (m *Model) leftState() Left {
	return Left{Session: m.session, Begun: m.begun || len(m.outbox.list) > 0, Running: m.turn.id != "",
		Waiting: len(m.pending) > 0, Unsent: m.outbox.unsent()}
}

// Init opens the session.
func (m *Model) Init() tea.Cmd {
	return tea.Batch(m.loadSession(m.o.Session), m.input.Focus(), tea.RequestBackgroundColor)
}

// Update implements tea.Model. It handles a message, and then does what the new state requires: it sends the next
// message of the outbox, watches a new request and rings the bell for it, starts the spinner, looks what the chat waits
// for, removes a new hint later, and lays out the screen.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	before := m.noticeCount
	cmds := []tea.Cmd{m.handle(msg), m.sendNext(), m.watchRequest(), m.ringBell(), m.startSpinner(), m.checkWaits()}
	if count := m.noticeCount; count != before {
		cmds = append(cmds, m.later(noticeFor, func(time.Time) tea.Msg { return noticeMsg{count} }))
	}
	m.layOut()
	if m.leaving {
		cmds = append(cmds, tea.Quit)
	}
	return m, tea.Batch(cmds...)
}

// handle handles a message according to its type.
func (m *Model) handle(msg tea.Msg) tea.Cmd {
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
	default:
		return m.handleResult(msg)
	}
	return nil
}

// handleResult handles a message that does not come from the terminal. A message of an unknown type is for the current
// form.
func (m *Model) handleResult(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case filesMsg:
		m.menu.files = msg
		m.complete()
	case openedMsg:
		return m.openSession(msg)
	case itemsMsg:
		return m.showItems(msg)
	case shellMsg:
		m.shellEnded(msg)
	case sessionsMsg:
		return m.showSessions(msg)
	case diffMsg:
		m.showDiff(msg)
	case mergeMsg:
		return m.offerMerge(msg)
	case forkPointsMsg:
		return m.showForkPoints(msg)
	case sentMsg:
		m.sent(msg)
	case editedMsg:
		return m.edited(msg)
	case decidedMsg:
		m.decided(msg)
	case subagentsMsg:
		return m.showSubagents(msg)
	case pollMsg:
		if msg.watch == m.subagents {
			return m.pollSubagents()
		}
	case waitsDueMsg:
		return m.readWaits()
	case waitsMsg:
		m.showWaits(msg)
	case composedMsg:
		m.composed(msg)
	case keyDelayMsg:
		return m.endKeyDelay(msg)
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
		return m.advanceSpinner(msg)
	default:
		return m.updateForm(msg)
	}
	return nil
}

// showItems shows the items that the feed has read, and returns the command that waits for more. When a turn calls an
// agent for the first time, it also starts to look for requests of subagents.
func (m *Model) showItems(msg itemsMsg) tea.Cmd {
	if msg.feed != m.feed {
		return nil // from a session that the chat has left
	}
	m.showOutage(msg)
	watchBefore := m.subagents
	for _, i := range msg.items {
		m.showItem(i)
		m.waits.heard, m.waits.why = m.now(), ""
	}
	cmds := []tea.Cmd{m.feed.next}
	if m.subagents != watchBefore {
		cmds = append(cmds, m.pollSubagents())
	}
	if m.filesChanged {
		m.filesChanged = false
		cmds = append(cmds, m.summarizeChanges())
	}
	return tea.Batch(cmds...)
}

func (m *Model) resize(msg tea.WindowSizeMsg) {
	if msg.Width <= 0 || msg.Height <= 0 {
		return
	}
	m.width, m.height, m.changed = msg.Width, msg.Height, true
	m.fitInput()
}

// working reports whether a turn or a command is running or a message is on its way, so that the spinner turns.
func (m *Model) working() bool { return m.turn.id != "" || len(m.outbox.list) > 0 || m.shell != nil }

// startSpinner schedules the next tick of the spinner, if one is needed and none is scheduled. An entry whose layout is
// delayed needs it, too: see advanceSpinner.
func (m *Model) startSpinner() tea.Cmd {
	if m.spinning || !m.working() && !m.stale {
		return nil
	}
	m.spinning = true
	tick := m.spinner.Tick
	return m.later(m.spinner.Spinner.FPS, func(time.Time) tea.Msg { return tick() })
}

// advanceSpinner handles a tick of the spinner. It also lets layOut try the layouts again that were delayed.
func (m *Model) advanceSpinner(msg spinner.TickMsg) tea.Cmd {
	m.spinning = false
	m.changed = m.changed || m.stale
	m.spinner, _ = m.spinner.Update(msg) // startSpinner schedules the next tick
	return nil
}

// noticeFor is how long a hint stays visible.
const noticeFor = 4 * time.Second

// hint shows a hint below the status, in place of the previous one. It disappears at the next key press, and after
// noticeFor.
func (m *Model) hint(format string, args ...any) {
	m.notice = termsafe.Line(fmt.Sprintf(format, args...), 200)
	m.noticeCount++
}

// noticeMsg removes the hint with this count, if it is still the last one.
type noticeMsg struct{ count int }

// note adds a note by the chat itself to the conversation.
func (m *Model) note(format string, args ...any) { m.addText(entryNote, fmt.Sprintf(format, args...)) }

// printError adds an error to the conversation.
func (m *Model) printError(format string, args ...any) {
	m.addText(entryError, fmt.Sprintf(format, args...))
}
