package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The highlighter of code has a clock that stops by itself a second after its last use.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2.runClock"))
}

// within bounds how long a test waits for an event.
const within = 20 * time.Second

// requests are what a chat asked of its session's workflow. They change nothing: the test plays the workflow's part and
// writes to the journal.
type requests struct {
	mu        sync.Mutex
	messages  []client.SendInput
	decisions []client.DecideInput
	covered   []string // what the turn says that a decision covers
	sessions  *journal.DB
	stops     []string
	err       error
}

// says reads what was asked.
func (r *requests) says(what func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return what()
}

func (r *requests) Send(_ context.Context, q client.SendInput) (client.Turn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, q)
	return client.Turn{Session: q.Session, MessageID: q.Message.ID}, r.err
}

func (r *requests) Decide(_ context.Context, in client.DecideInput) ([]turn.Decision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions = append(r.decisions, in)
	decided := []turn.Decision{{ID: in.Request}}
	for _, id := range r.covered {
		decided = append(decided, turn.Decision{ID: id})
	}
	return decided, r.err
}

func (r *requests) Fork(ctx context.Context, in client.ForkInput) (journal.SessionRecord, error) {
	return client.New(nil, client.Options{Journal: r.sessions}).Fork(ctx, in)
}

func (r *requests) Compact(context.Context, client.CompactInput) (workflows.CompactResult, error) {
	return workflows.CompactResult{Nothing: true}, nil
}

func (r *requests) Stop(_ context.Context, session string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops = append(r.stops, session)
	return r.err
}

// stage runs a chat as Bubble Tea does, on a real journal. Its clock stands still: time passes when the test says so.
type stage struct {
	*testing.T
	*Model
	*requests
	*story
	clock  time.Time
	msgs   chan tea.Msg
	timers []func(time.Time) tea.Msg
	quit   bool
	bells  int // how often the terminal's bell has rung
}

func newStage(t *testing.T, width, height int) *stage {
	t.Helper()
	j, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	s := &stage{T: t, requests: &requests{sessions: j}, story: newStory(t, j), msgs: make(chan tea.Msg, 1000)}
	s.clock = s.at.Add(time.Minute)
	s.enter("s", width, height)
	return s
}

// enter starts a chat about a session.
func (s *stage) enter(session string, width, height int) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.Model = NewModel(ctx, Options{Journal: s.journal, Client: s.requests, Session: session, Person: "me",
		Model: "scripted", Color: true, History: filepath.Join(s.TempDir(), "history")})
	s.Model.now = func() time.Time { return s.clock }
	s.Model.later = func(_ time.Duration, f func(time.Time) tea.Msg) tea.Cmd {
		s.timers = append(s.timers, f)
		return nil
	}
	m := s.Model
	s.Cleanup(func() { cancel(); m.close() })
	s.do(m.Init())
	s.take(tea.WindowSizeMsg{Width: width, Height: height})
	s.until("the session is open", func() bool { return s.Model.feed != nil })
}

// do runs a command in the background, as Bubble Tea does.
func (s *stage) do(cmd tea.Cmd) {
	if cmd != nil {
		go func() { s.msgs <- cmd() }()
	}
}

// take is the event loop's step.
func (s *stage) take(msg tea.Msg) {
	switch msg := msg.(type) {
	case nil:
		return
	case tea.BatchMsg:
		for _, cmd := range msg {
			s.do(cmd)
		}
		return
	case tea.QuitMsg:
		s.quit = true
		return
	case tea.RawMsg:
		require.Equal(s, "\a", msg.Msg)
		s.bells++
		return
	default:
		// a sequence
		if v := reflect.ValueOf(msg); v.Kind() == reflect.Slice && v.Type().Elem() == reflect.TypeFor[tea.Cmd]() {
			for i := range v.Len() {
				if cmd := v.Index(i).Interface().(tea.Cmd); cmd != nil {
					s.take(cmd())
				}
			}
			return
		}
	}
	_, cmd := s.Model.Update(msg)
	s.do(cmd)
	requireShape(s, s.live(), s.Model.width, s.Model.height)
}

// pass fires all timers.
func (s *stage) pass() {
	s.clock = s.clock.Add(time.Hour)
	timers := s.timers
	s.timers = nil
	for _, f := range timers {
		s.take(f(s.clock))
	}
}

func (s *stage) until(what string, done func() bool) {
	s.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	for !s.requests.says(done) {
		select {
		case msg := <-s.msgs:
			s.take(msg)
		case <-timer.C:
			require.Fail(s, "timed out until "+what, "conversation:\n%s\nscreen:\n%s", s.all(), s.live())
		}
	}
}

// live is the screen's text, and all is the conversation's, scrolled or not.
func (s *stage) live() string { return ansi.Strip(s.Model.View().Content) }
func (s *stage) all() string  { return ansi.Strip(s.talk.GetContent()) }

// bottom is what stands below the conversation.
func (s *stage) bottom() string { return ansi.Strip(strings.Join(s.below(), "\n")) }

// shows waits for a text on the screen, and prints for one in the conversation. Both ignore how lines are wrapped.
func (s *stage) shows(text string) {
	s.Helper()
	s.until("the screen shows "+text, func() bool { return strings.Contains(spaced(s.live()), text) })
}

func (s *stage) prints(text string) {
	s.Helper()
	s.until("the conversation has "+text, func() bool { return strings.Contains(spaced(s.all()), text) })
}

func spaced(text string) string { return strings.Join(strings.Fields(text), " ") }

// asksFor shows a request as the feed does.
func (s *stage) asksFor(p pendingRequest) {
	p.page = newPage()
	if p.ArgumentsHash == "" {
		p.ArgumentsHash = journal.HashOf([]byte(p.Arguments))
	}
	s.Model.pending = append(s.Model.pending, &p)
	s.take(noticeMsg{-1})
}

func (s *stage) press(keys ...tea.KeyPressMsg) {
	for _, k := range keys {
		s.take(k)
	}
}

func (s *stage) types(text string) {
	for _, r := range text {
		s.take(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

func (s *stage) says(text string) { s.types(text); s.press(enter) }

var (
	enter = tea.KeyPressMsg{Code: tea.KeyEnter}
	tab   = tea.KeyPressMsg{Code: tea.KeyTab}
	esc   = tea.KeyPressMsg{Code: tea.KeyEscape}
	up    = tea.KeyPressMsg{Code: tea.KeyUp}
	down  = tea.KeyPressMsg{Code: tea.KeyDown}
	pgUp  = tea.KeyPressMsg{Code: tea.KeyPgUp}
	ctrlC = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	ctrlD = tea.KeyPressMsg{Code: 'd', Mod: tea.ModCtrl}
	ctrlJ = tea.KeyPressMsg{Code: 'j', Mod: tea.ModCtrl}
	ctrlO = tea.KeyPressMsg{Code: 'o', Mod: tea.ModCtrl}
	ctrlU = tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl}
)

type tester interface {
	require.TestingT
	Helper()
}

func requireShape(t tester, text string, width, height int) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if height > 0 {
		require.LessOrEqual(t, len(lines), height, "%q", text)
	}
	for _, line := range lines {
		require.LessOrEqual(t, columns(line), max(width, 2), "%q", line)
		require.Negative(t, strings.IndexFunc(line,
			func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }), "%q", line)
	}
}

// story writes a session's turns to the journal, as the activities do.
type story struct {
	t       *testing.T
	journal *journal.DB
	turn    string
	head    turn.Head
	turns   int
	at      time.Time
	step    int
}

func newStory(t *testing.T, j *journal.DB) *story {
	return &story{t: t, journal: j, at: time.Now().Add(-time.Hour)}
}

func (s *story) now() time.Time { s.at = s.at.Add(time.Second); return s.at }

func (s *story) begin(id, text string) {
	s.t.Helper()
	s.turns++
	s.turn, s.step = fmt.Sprintf("turn-%d", s.turns), 0
	begun, err := s.journal.Begin(s.t.Context(),
		turn.BeginInput{Session: "s", Turn: s.turn, WorkflowID: "s", RunID: s.turn,
			Message: turn.UserMessage{ID: id, Text: text}, Config: json.RawMessage(`{}`), At: s.now()})
	require.NoError(s.t, err)
	s.head = begun.Head
}

func (s *story) key() journal.StepKey { return journal.StepKey{Turn: s.turn, Step: s.step} }

// infer opens an attempt of the next step, with the results of the last one and messages that join.
func (s *story) infer(results []turn.CallOutcome, joined ...turn.UserMessage) int {
	s.t.Helper()
	s.step++
	return s.again(results, joined...)
}

func (s *story) again(results []turn.CallOutcome, joined ...turn.UserMessage) int {
	s.t.Helper()
	i, err := s.journal.StartInference(s.t.Context(), journal.StartInference{Session: "s", Key: s.key(), Expect: s.head,
		Outcomes: results, Messages: joined, Model: "m", At: s.now()})
	require.NoError(s.t, err)
	return i.Attempt
}

func (s *story) stream(attempt int, deltas ...string) {
	s.t.Helper()
	var events []turn.Event
	for _, d := range deltas {
		events = append(events, turn.Event{Kind: turn.EventTextDelta, Text: d, At: s.now()})
	}
	require.NoError(s.t, s.journal.AppendEvents(s.t.Context(), s.key(), attempt, events))
}

func (s *story) settle(attempt int, text string, calls ...turn.ToolCall) {
	s.t.Helper()
	i, err := s.journal.SettleInference(s.t.Context(),
		journal.SettleInference{Session: "s", Key: s.key(), Attempt: attempt, At: s.now(),
			Answer: turn.Completion{Text: text, FinishReason: "stop", Usage: turn.Usage{InputTokens: 15, OutputTokens: 4,
				Cost: turn.Dollar / 1000}},
			Message: turn.Message{Role: turn.RoleAssistant, Text: text, ToolCalls: calls, TurnID: s.turn, Step: s.step}})
	require.NoError(s.t, err)
	s.head = i.Head
}

func (s *story) call(c turn.ToolCall, outcome turn.Outcome, text string) {
	s.t.Helper()
	s.settleCall(c, turn.ToolResult{Outcome: outcome, Text: text, SizeBytes: int64(len(text))})
}

func (s *story) claim(c turn.ToolCall) time.Time {
	s.t.Helper()
	at := s.now()
	_, err := s.journal.ClaimCall(s.t.Context(), journal.CallRecord{
		Turn: s.turn, Step: s.step, Call: c, Attempt: 1, Worker: "w", ClaimedAt: at}, false)
	require.NoError(s.t, err)
	return at
}

func (s *story) settleCall(c turn.ToolCall, r turn.ToolResult) {
	s.t.Helper()
	at := s.claim(c)
	r.Duration = 1500 * time.Millisecond
	_, err := s.journal.SettleCall(s.t.Context(), s.turn, c.ID, 1, r, at.Add(r.Duration))
	require.NoError(s.t, err)
}

func (s *story) asks(requests ...turn.Request) {
	s.t.Helper()
	_, err := s.journal.Ask(s.t.Context(), "s", s.turn, requests, s.now())
	require.NoError(s.t, err)
}

func (s *story) rules(r turn.Decision) {
	s.t.Helper()
	r.At = s.now()
	require.NoError(s.t, s.journal.Decide(s.t.Context(),
		"s", s.turn, []turn.Decision{r}, r.At))
}

func (s *story) finish(state turn.State, reason turn.FinishReason, message string) {
	s.t.Helper()
	_, err := s.journal.Finish(s.t.Context(),
		turn.FinishInput{Session: "s", Turn: s.turn, Result: turn.Result{State: state, Reason: reason, Message: message},
			Counters: turn.Counters{Usage: turn.Usage{InputTokens: 30, OutputTokens: 8}, Step: s.step, ToolCalls: 1},
			At:       s.now()})
	require.NoError(s.t, err)
}

// whole is a turn with its answer.
func (s *story) whole(id, asked, text string) {
	s.t.Helper()
	s.begin(id, asked)
	attempt := s.infer(nil)
	s.stream(attempt, text)
	s.settle(attempt, text)
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
}

func callOf(id, arguments string) turn.ToolCall {
	return turn.ToolCall{ID: id, WireID: "w" + id, Tool: "mcp/disk/write", Arguments: arguments}
}

func approvalOf(c turn.ToolCall, step int) turn.Request {
	return turn.Request{ID: c.ID, Kind: turn.RequestApproval, Step: step, Tool: c.Tool,
		ArgumentsHash: journal.HashOf([]byte(c.Arguments)), Risk: turn.RiskHigh, Why: "policy asks"}
}
