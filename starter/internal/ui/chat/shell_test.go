package chat

import (
	"errors"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
)

func TestTheNextMessageHasTheOutputOfACommand(t *testing.T) {
	s := newStage(t, 80, 30)
	files(t, map[string]string{"a.txt": "in the current folder\n"})
	s.says(`!cat a.txt; printf '\033[31mred\033[0m\n' >&2; exit 3`)
	s.prints("exit status 3")
	assert.Contains(t, s.all(), "│ in the current folder")
	assert.Contains(t, s.talkLines(), "│ red")
	assert.Empty(t, s.messages)
	s.requests.err = errors.New("no Temporal answers")
	s.says("Why?")
	s.prints("the message was not sent")
	s.requests.err = nil
	s.press(enter)
	s.until("it is sent again", func() bool { return len(s.messages) == 2 })
	const want = "Why?\n\n<shell command=\"cat a.txt; printf '\\\\033[31mred\\\\033[0m\\\\n' >&2; exit 3\" " +
		"result=\"exit status 3\">\nin the current folder\nred\n</shell>"
	assert.Equal(t, want, s.messages[1].Message.Text)
	s.begin(s.messages[1].Message.ID, want)
	s.prints("› Why? [!cat a.txt; printf")
	s.says("!!important")
	s.until("it is sent", func() bool { return len(s.messages) == 3 })
	assert.Equal(t, "!important", s.messages[2].Message.Text, "the output is sent once")
}

func TestACommandIsBoundedAndStopped(t *testing.T) {
	s := newStage(t, 80, 30)
	s.says("!yes | head -c 1000000; echo the end")
	s.prints("! yes | head -c 1000000; echo the end · ok")
	assert.LessOrEqual(t, len(s.commands[0].text), shellOutput+200)
	assert.Contains(t, s.commands[0].text, "[cut: the first ")
	assert.Contains(t, s.commands[0].text, "the end")
	for range maxCommands + 2 {
		s.commands = append(s.commands, commandOutput{})
	}
	s.says("!echo $$; sleep 1000 & sleep 1000")
	s.shows("running your command")
	s.says("!ls")
	assert.Contains(t, s.live(), "a command is running")
	s.press(ctrlU)
	s.press(esc)
	s.prints("sleep 1000 · stopped")
	assert.Len(t, s.commands, maxCommands)
	s.shows("ready")
}

func TestPastedLinesDoNotRun(t *testing.T) {
	s := newStage(t, 80, 30)
	s.take(tea.PasteMsg{Content: "!echo one\necho two"})
	s.press(enter)
	s.until("it is sent", func() bool { return len(s.messages) == 1 })
	assert.Equal(t, "!echo one\necho two", s.messages[0].Message.Text)
	assert.Nil(t, s.shell)
}

// A program that wants a terminal must not take the chat's.
func TestACommandHasNoTerminal(t *testing.T) {
	s := newStage(t, 80, 30)
	s.says("!cat; (cat </dev/tty) 2>/dev/null || echo none")
	s.prints("│ none")
}
