package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

func TestATurnIsPrintedInTheOrderOfTheJournal(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "What is this?")
	c := callOf("1.0", `{"path":"a\u001b.txt"}`)
	attempt := s.infer(nil)
	s.stream(attempt, "I ", "look.")
	s.settle(attempt, "I look.", c)
	s.call(c, turn.OutcomeOK, "hello")
	attempt = s.infer([]turn.CallOutcome{{CallID: c.ID}}, turn.UserMessage{ID: "m2", Text: "In short, please."})
	s.stream(attempt, "It is\x1b[2J ", "a **test**.\n\nA ", "short one.")
	s.shows("short one.")
	assert.Contains(t, s.bottom(), "15 tokens in, 4 out", "tokens are shown live")
	s.settle(attempt, "It is\x1b[2J a **test**.\n\nA short one.")
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.prints("2 steps · 1 tool call · 30 tokens in, 8 out · $0.0020")
	assert.Equal(t, []string{
		"new session s; /help lists the commands",
		"", "» What is this?",
		"", "I look.", "",
		`✓ mcp/disk/write {"path":"a\u001b.txt"} · ok · 5 B · 1.5s`,
		"", "» In short, please.",
		"", "It is[2J a test.",
		"", "A short one.",
	}, s.talkLines()[:13])
	s.shows("ready")
}

// talkLines are the lines of the conversation without trailing blanks.
func (s *stage) talkLines() []string {
	var out []string
	for line := range strings.SplitSeq(s.all(), "\n") {
		out = append(out, strings.TrimRight(line, " "))
	}
	return out
}

func TestAnOpenedSessionShowsItsPastAndGoesOn(t *testing.T) {
	s := newStage(t, 60, 20)
	s.whole("m1", "one", "First.")
	s.prints("1 step")
	s.begin("m2", "two")
	s.stream(s.infer(nil), "Half an ")
	s.shows("Half an")
	s.enter("s", 60, 20)
	s.shows("Half an")
	assert.Equal(t, []string{"session s, 2 turns", "", "› one", "", "First.", "", "» two", "", "Half an"},
		s.talkLines())
	assert.Contains(t, s.bottom(), "$0.0010 · 15 tokens in, 4 out", "the session's earlier turns count")
}

func TestTextOfAnInterruptedInferenceIsWithdrawn(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Go on.")
	s.stream(s.infer(nil), "A wrong beginning.")
	s.shows("A wrong beginning.")
	attempt := s.again(nil)
	s.stream(attempt, "The right answer.")
	s.shows("The right answer.")
	assert.NotContains(t, s.live(), "wrong")
	s.settle(attempt, "The right answer.")
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.prints("1 step")
	assert.NotContains(t, s.all(), "wrong")
	assert.Contains(t, s.all(), "its text so far is withdrawn")
}

func TestAnApprovalIsBoundToWhatWasShown(t *testing.T) {
	s := newStage(t, 60, 20)
	s.begin("m1", "Write.")
	c := callOf("1.0", "{\"text\":\"\u202eevil\u009b2J"+strings.Repeat(" and so on", turn.WaitArguments/10)+
		" the end\"}")
	attempt := s.infer(nil)
	s.settle(attempt, "", c)
	s.asks(approvalOf(c, 1))
	s.shows("Allow mcp/disk/write? (high risk)")
	assert.Contains(t, s.live(), `{"text":"\u202eevil\u009b2J and so on`)
	s.types("y")
	assert.Empty(t, s.decisions, "nothing is decided in the first moment")
	s.press(tea.KeyPressMsg{Code: tea.KeyBackspace})
	s.press(tab)
	s.press(tea.KeyPressMsg{Code: tea.KeyEnd})
	assert.Contains(t, s.live(), `the end"}`, "arguments that the event does not hold are shown, too")
	s.types("y")
	assert.Contains(t, s.live(), "there is more of the arguments", "what was jumped over was not seen")
	s.press(tea.KeyPressMsg{Code: tea.KeyHome})
	for !strings.Contains(s.live(), "the end") {
		s.press(tea.KeyPressMsg{Code: tea.KeyPgDown})
	}
	s.types("y")
	s.shows("decided; waiting for the turn")
	assert.NotContains(t, s.bottom(), "y allow")
	s.types("y")
	s.until("it is sent", func() bool { return len(s.decisions) > 0 })
	assert.Equal(t, []client.DecideInput{{Session: "s", Turn: "turn-1", Request: "1.0", Allow: true,
		ArgumentsHash: journal.HashOf([]byte(c.Arguments)), By: "me"}},
		s.decisions)
	s.rules(turn.Decision{ID: "1.0", Status: turn.StatusAllowed, Allowed: true,
		ArgumentsHash: journal.HashOf([]byte(c.Arguments)), By: "me"})
	s.prints("allowed by me")
	assert.NotContains(t, s.live(), "Allow mcp")
}

func TestACommandIsAllowedOnlyAfterAllOfItsLines(t *testing.T) {
	s := newStage(t, 60, 20)
	arguments, err := json.Marshal(map[string]string{"command": "true && ls" + strings.Repeat("\n", 30) + "rm -rf x"})
	require.NoError(t, err)
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "local/shell",
		Arguments: string(arguments)}, turn: "t"})
	s.press(tab)
	assert.Contains(t, s.bottom(), "│ $ true && ls")
	s.types("y")
	assert.Contains(t, s.live(), "there is more of the arguments")
	for !strings.Contains(s.bottom(), "│   rm -rf x") {
		assert.NotContains(t, s.bottom(), "y allow")
		s.types(" ")
	}
	assert.Contains(t, s.bottom(), "y allow")
}

func TestACallIsAllowedOnlyAfterTheCallsBesideIt(t *testing.T) {
	s := newStage(t, 60, 24)
	beside := turn.Beside{Count: 20}
	for range turn.MaxBeside {
		beside.Calls = append(beside.Calls, turn.ToolCall{Tool: "mcp/disk/write", Arguments: `{"path":"build.sh"}`})
	}
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "x", Arguments: "{}",
		ArgumentsHash: journal.HashOf([]byte("{}")), Beside: &beside},
		turn: "t"})
	s.press(tab)
	assert.Contains(t, s.live(), "20 unapproved calls")
	assert.NotContains(t, s.bottom(), "y allow")
	s.press(tea.KeyPressMsg{Code: tea.KeyPgDown}, tea.KeyPressMsg{Code: tea.KeyPgDown})
	assert.Contains(t, s.bottom(), "exact arguments:")
	assert.Contains(t, s.bottom(), "y allow")
}

func TestArgumentsThatCannotBeShownCannotBeAllowed(t *testing.T) {
	s := newStage(t, 60, 20)
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "x", Arguments: "{",
		ArgumentsHash: journal.HashOf([]byte("{}"))},
		turn: "t"})
	s.press(tab)
	s.types("y")
	assert.Contains(t, s.live(), "can only be denied")
	s.types("n")
	s.until("it is denied", func() bool { return len(s.decisions) > 0 })
	assert.False(t, s.decisions[0].Allow)
}

// A terminal shows the last rows of what does not fit. Nothing may be allowed of which a row was cut off.
func TestACallIsAllowedOnlyWithItsToolAndArgumentsOnTheScreen(t *testing.T) {
	const tool, arguments = "mcp/disk/write", `{"to":"EVILPART"}`
	for _, size := range []struct {
		width, height int
		allowed       bool
	}{{60, 3, false}, {60, 4, false}, {60, 5, true}, {80, 7, true}, {18, 6, false}, {18, 7, true}} {
		s := newStage(t, size.width, size.height)
		s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: tool,
			Arguments: arguments, Risk: turn.RiskHigh},
			turn: "t"})
		s.press(tab)
		s.press(tea.KeyPressMsg{Code: tea.KeySpace}, tea.KeyPressMsg{Code: tea.KeyHome}, tea.KeyPressMsg{Code: tea.KeyPgDown})
		shown := strings.Split(s.live(), "\n")
		bare := strings.Join(shown, " ")
		assert.Equal(t, size.allowed, strings.Contains(bare, tool) && strings.Contains(bare, "high risk"), "%v: %q", size,
			shown)
		s.types("yat")
		if !size.allowed {
			assert.False(t, s.currentRequest().sent, "%v", size)
			s.take(tea.WindowSizeMsg{Width: 80, Height: 24})
			assert.Contains(t, s.live(), arguments)
			s.types("y")
		}
		s.until("it is sent", func() bool { return len(s.decisions) > 0 })
		assert.True(t, s.decisions[0].Allow)
	}
}

func TestACallThatWasSeenIsNotAllowedInASmallerWindow(t *testing.T) {
	s := newStage(t, 80, 24)
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "x", Arguments: "{}"},
		turn: "t"})
	s.press(tab)
	s.take(tea.WindowSizeMsg{Width: 80, Height: 3})
	s.types("y")
	assert.False(t, s.currentRequest().sent)
	s.types("n")
	s.until("it is denied", func() bool { return len(s.decisions) > 0 })
	assert.False(t, s.decisions[0].Allow)
}

func TestMarksOnALetterTakeRows(t *testing.T) {
	s := newStage(t, 60, 20)
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "x",
		Arguments: `{"a":"e` + strings.Repeat("\u0301", 3000) + `"}`},
		turn: "t"})
	s.press(tab)
	s.types("y")
	assert.False(t, s.currentRequest().sent, "most of it is below the screen")
	assert.Contains(t, s.live(), `\u0301\u0301`)
}

func TestEveryKeyOfAnApproval(t *testing.T) {
	for keys, want := range map[string]client.DecideInput{
		"y":        {Allow: true},
		"a":        {Allow: true, Grant: turn.GrantCall, Covered: true},
		"t":        {Allow: true, Grant: turn.GrantTool, Covered: true},
		"n":        {},
		"rnot now": {Reason: "not now"},
	} {
		s := newStage(t, 30, 12)
		s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval}, turn: "t"})
		s.press(tab)
		s.types(keys)
		if len(keys) > 1 {
			s.press(enter)
		}
		s.until("it is sent", func() bool { return len(s.decisions) > 0 })
		want.Session, want.Turn, want.Request, want.ArgumentsHash, want.By = "s", "t", "1.0", journal.HashOf(nil), "me"
		assert.Equal(t, want, s.decisions[0], keys)
	}
}

func TestWhatIsDecidedElsewhereGoesAway(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Write.")
	one, two := callOf("1.0", `{"n":1}`), callOf("1.1", `{"n":2}`)
	attempt := s.infer(nil)
	s.settle(attempt, "", one, two)
	s.asks(approvalOf(one, 1), approvalOf(two, 1))
	s.shows("1 of 2")
	s.press(tab)
	s.rules(turn.Decision{ID: "1.0", Status: turn.StatusDenied, By: "somebody\x1b[2J", Reason: "no"})
	s.prints(`! mcp/disk/write {"n":1} · denied by somebody[2J: no`)
	s.shows(`{"n":2}`)
	s.types("y")
	assert.Empty(t, s.decisions, "keys that were meant for the first decide nothing about the second")
	s.press(tea.KeyPressMsg{Code: tea.KeyBackspace})
	s.pass()
	s.pass()
	s.types("y")
	s.until("it is sent", func() bool { return len(s.decisions) > 0 })
	assert.Equal(t, "1.1", s.decisions[0].Request)
	s.requests.err = turn.NewError(turn.CodeNotWaiting, nil, "call 1.1 was denied already")
	s.take(decidedMsg{[]string{s.currentRequest().key()}, s.requests.err})
	s.prints("call 1.1 was denied already")
}

func TestAReasonDeniesOnlyItsCall(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Write.")
	one, two, three := callOf("1.0", `{"n":1}`), callOf("1.1", `{"n":2}`), callOf("1.2", `{"n":3}`)
	s.settle(s.infer(nil), "", one, two, three)
	s.asks(approvalOf(one, 1), approvalOf(two, 1), approvalOf(three, 1))
	s.shows("1 of 3")
	for _, key := range []tea.KeyPressMsg{esc, enter, enter} {
		call := s.currentRequest().ID
		s.types("a draft")
		s.press(tab)
		s.types("rnot now")
		s.rules(turn.Decision{ID: call, Status: turn.StatusDenied, By: "another", Reason: "no"})
		s.until("the call is denied", func() bool { p := s.currentRequest(); return p == nil || p.ID != call })
		s.press(key)
		assert.Contains(t, s.live(), "> a draft")
		assert.False(t, s.focused, "keys that were meant for one call decide nothing about the next")
		s.press(ctrlU)
	}
	s.prints("the call was decided meanwhile; your reason was not sent")
	assert.Empty(t, s.decisions)
}

func TestAPlanIsChangedInTheChat(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Change it.")
	proposed := callOf("1.0", `{"steps":[{"description":"look"}]}`)
	proposed.Tool = plan.Tool
	s.settle(s.infer(nil), "", proposed)
	s.asks(approvalOf(proposed, 1))
	s.shows("[ ] 1. look")
	s.press(tab)
	key := s.currentRequest().key()
	s.take(editedMsg{key: key})
	s.shows("not changed")
	changed := json.RawMessage(`{"steps":[{"description":"see"}]}`)
	s.take(editedMsg{key: "another", plan: changed})
	assert.Empty(t, s.decisions)
	s.take(editedMsg{key: key, plan: changed})
	s.until("it is sent", func() bool { return len(s.decisions) > 0 })
	require.Len(t, s.decisions, 1)
	assert.Equal(t, changed, s.decisions[0].ChangedPlan)
}

func TestAQuestionIsAnsweredOnce(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Paint.")
	attempt := s.infer(nil)
	s.settle(attempt, "")
	s.asks(turn.Request{ID: "q1", Kind: turn.RequestQuestion, Step: 1, Question: "Which \x1b[2Jcolour?"})
	s.shows("? Which [2Jcolour?")
	s.says("blue")
	s.says("red")
	s.until("it is sent", func() bool { return len(s.decisions) > 0 })
	assert.Equal(t, []client.DecideInput{{Session: "s", Turn: "turn-1", Request: "q1", Text: "blue", By: "me"}},
		s.decisions)
	assert.Contains(t, s.live(), "> red", "the second stays in the input")
}

func TestMessagesGoOneAfterTheOther(t *testing.T) {
	s := newStage(t, 80, 24)
	s.says("one")
	s.says("two")
	s.says("//three")
	s.until("all are sent", func() bool { return len(s.messages) == 3 })
	for i, text := range []string{"one", "two", "/three"} {
		assert.Equal(t, text, s.messages[i].Message.Text)
	}
	s.shows("one · accepted")
	s.begin(s.messages[0].Message.ID, "one")
	s.prints("› one")
	assert.NotContains(t, s.live(), "one ·")
	s.says("/queue four")
	s.until("it is sent", func() bool { return len(s.messages) == 4 })
	assert.True(t, s.messages[3].Message.Queue)
	s.shows("four · queued")
}

func TestAMessageThatWasNotAcceptedIsNotLost(t *testing.T) {
	s := newStage(t, 80, 24)
	s.requests.err = errors.New("no Temporal\x1b[2J answers")
	s.says("precious")
	s.prints("the message was not sent: no Temporal[2J answers")
	assert.Contains(t, s.live(), "> precious")
	s.requests.err = nil
	s.press(enter)
	s.until("it is sent again", func() bool { return len(s.messages) == 2 })
	assert.Equal(t, s.messages[0].Message.ID, s.messages[1].Message.ID, "it is answered once, whatever arrived")
}

func TestKeysThatStopAndLeave(t *testing.T) {
	s := newStage(t, 80, 24)
	s.press(esc)
	assert.Contains(t, s.live(), "Ctrl-D leaves")
	s.begin("m1", "Slowly.")
	s.prints("» Slowly.")
	s.pass()
	s.shows("answering")
	s.press(ctrlC)
	assert.Contains(t, s.live(), "press Ctrl-C again to stop")
	s.pass()
	s.press(ctrlC)
	assert.Empty(t, s.stops, "the second came too late, and is a first one")
	s.press(ctrlC)
	s.until("it is stopped", func() bool { return len(s.stops) > 0 })
	s.press(ctrlD)
	s.until("the chat is left", func() bool { return s.quit })
	assert.Equal(t, Left{Session: "s", Begun: true, Running: true}, s.leftState())
	assert.Empty(t, strings.TrimSpace(s.live()))
}

func TestTheBellRingsWhenTheUserIsAsked(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Write.")
	one, two := callOf("1.0", `{"n":1}`), callOf("1.1", `{"n":2}`)
	s.settle(s.infer(nil), "", one, two)
	s.asks(approvalOf(one, 1), approvalOf(two, 1))
	s.shows("1 of 2")
	s.until("the bell rings", func() bool { return s.bells == 1 })
	for _, id := range []string{"1.0", "1.1"} {
		s.rules(turn.Decision{ID: id, Status: turn.StatusDenied, By: "me"})
	}
	s.until("both are decided", func() bool { return s.currentRequest() == nil })
	s.asks(turn.Request{ID: "q1", Kind: turn.RequestQuestion, Step: 1, Question: "Which colour?"})
	s.shows("? Which colour?")
	s.until("the bell rings again", func() bool { return s.bells == 2 })
}

func TestEscStopsTheTurn(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Slowly.")
	s.shows("answering")
	s.types("/he")
	s.press(esc)
	assert.False(t, s.menu.shown())
	assert.False(t, s.Model.turn.stopping, "it closes the menu")
	s.press(ctrlU)
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "x", Arguments: "{}"},
		turn: "turn-1"})
	s.press(tab, esc, esc)
	assert.False(t, s.Model.turn.stopping, "it leaves the request")
	s.Model.pending = nil
	s.types("And then?")
	s.press(esc, esc)
	s.until("it is stopped", func() bool { return len(s.stops) > 0 })
	assert.Contains(t, s.bottom(), "stopping")
	assert.Contains(t, s.bottom(), "> And then?", "the input is kept")
	s.finish(turn.StateCancelled, turn.FinishCancelled, "")
	s.shows("ready")
	assert.Equal(t, []string{"s"}, s.stops, "it is stopped once")
}

func TestLeavingWaitsForAMessageOnItsWay(t *testing.T) {
	for name, way := range map[string]struct{ warns, leaves func(*stage) }{
		"Ctrl-D": {func(s *stage) { s.press(ctrlD) }, func(s *stage) { s.press(ctrlD) }},
		"Ctrl-C": {func(s *stage) { s.press(ctrlC, ctrlC) }, func(s *stage) { s.press(ctrlC) }},
		"/quit":  {func(s *stage) { s.says("/quit") }, func(s *stage) { s.says("/quit") }},
		"both":   {func(s *stage) { s.press(ctrlC, ctrlD) }, func(s *stage) { s.press(ctrlD) }},
	} {
		s := newStage(t, 80, 24)
		s.outbox.put(outgoing{typed: "one", text: "one"})
		s.outbox.sending = true
		way.warns(s)
		assert.Contains(t, s.live(), "a message is still being sent", name)
		assert.False(t, s.leaving, name)
		s.says("two")
		way.warns(s)
		assert.False(t, s.leaving, "%s: a message that is new has a warning of its own", name)
		way.leaves(s)
		assert.True(t, s.leaving, name)
		assert.Equal(t, []string{"one", "two"}, s.leftState().Unsent, name)
	}
}

func TestTheInputRemembers(t *testing.T) {
	s := newStage(t, 80, 24)
	s.says("first")
	s.types("second")
	s.press(ctrlJ)
	s.says("line")
	s.types("draft")
	s.press(up)
	assert.Equal(t, "second\nline", s.input.Value())
	s.press(up)
	assert.Equal(t, "first", s.input.Value())
	s.press(down, down, down)
	assert.Equal(t, "draft", s.input.Value())
	s.press(ctrlC)
	assert.Empty(t, s.input.Value())
	s.press(up)
	assert.Equal(t, "draft", s.input.Value(), "what was cleared is kept")
}

func TestPastes(t *testing.T) {
	s := newStage(t, 40, 12)
	s.take(tea.PasteMsg{Content: "a\r\nb\x1b[2J\n"})
	assert.Equal(t, "a\nb[2J\n", s.input.Value())
	long := strings.Repeat("0123456789\n", 100_000)
	s.take(tea.PasteMsg{Content: long})
	assert.Contains(t, s.input.Value(), "[paste 1: 100,001 lines]")
	s.take(tea.PasteMsg{Content: strings.Repeat("x", maxPaste+1)})
	s.prints("too long for the chat")
	s.press(enter)
	s.until("it is sent", func() bool { return len(s.messages) > 0 })
	assert.Equal(t, "a\nb[2J\n"+strings.TrimSpace(long), s.messages[0].Message.Text)
}

// The renderer needs characters of private use for itself. An answer that has them must not be shown as text that the
// redactor did not see.
func TestCharactersOfTheRendererJoinNothing(t *testing.T) {
	for _, width := range []int{10, 80} {
		for _, r := range "\uf5a6\uf5a7\uf5a8\uf5a9" {
			out := strings.Join(newTheme(true, true).render("a1"+string(r)+"b2", width), "")
			assert.Regexp(t, "a1["+string(r)+"\ufffd]b2", out)
		}
	}
}

func TestSmallTerminals(t *testing.T) {
	for _, size := range [][2]int{{5, 3}, {11, 6}, {20, 10}, {300, 100}} {
		s := newStage(t, size[0], size[1])
		s.begin("m1", "What is this? 世界")
		c := callOf("1.0", `{"path":"世界世界世界 and more of it"}`)
		attempt := s.infer(nil)
		s.stream(attempt, styled)
		s.settle(attempt, styled, c)
		s.asks(approvalOf(c, 1))
		s.until("it asks", func() bool { return s.currentRequest() != nil })
		s.press(tab)
		s.rules(turn.Decision{ID: "1.0", Status: turn.StatusDenied, By: "me"})
		s.until("it is ruled", func() bool { return s.currentRequest() == nil })
		s.finish(turn.StateFailed, turn.FinishFailed, "it broke")
		s.until("it is over", func() bool { return s.Model.turn.id == "" })
		requireShape(t, s.all(), size[0], 0)
		s.take(tea.WindowSizeMsg{Width: 30, Height: 8})
		s.pass()
	}
}

const styled = "# Title\n\nSome *words* 世界 and `code`.\n\n| a | b |\n|---|---|\n| long cell text | other " +
	"|\n\n```go\n\tfmt.Println(\"\\*\")\n```\n\n1. one\n\n2. two\n\n> quote &#27;[2J <b>bold</b>\n"

func TestForkLeavesARunningTurnBehind(t *testing.T) {
	s := newStage(t, 80, 24)
	s.whole("m1", "one", "First.")
	s.begin("m2", "two")
	s.prints("» two")
	s.says("/fork")
	s.prints("forked s at message 2")
	s.until("it goes there", func() bool { return s.session != "s" })
	forked, err := s.journal.Session(t.Context(), s.session)
	require.NoError(t, err)
	assert.EqualValues(t, 2, forked.Head.Seq)
	s.says("/sessions s")
	s.until("it goes back", func() bool { return s.session == "s" && s.Model.turn.id == "turn-2" })
}
