package chat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/starter/internal/ui"
)

func TestCtrlROffersTheHistory(t *testing.T) {
	s := newStage(t, 80, 24)
	for _, text := range []string{"fix the parser", "/help", "test the Parser\nand more", "fix the parser"} {
		s.history.add(text)
	}
	ctrlR := tea.KeyPressMsg{Code: 'r', Mod: tea.ModCtrl}
	s.types("pars")
	s.press(ctrlR)
	s.shows("> fix the parser")
	assert.Equal(t, 1, strings.Count(s.bottom(), "fix the parser"))
	assert.NotContains(t, s.bottom(), "/help")
	s.press(ctrlR, enter)
	assert.Equal(t, "test the Parser\nand more", s.input.Value())
	assert.False(t, s.menu.shown())
	s.press(ctrlU, ctrlR)
	s.shows("/help")
	s.press(esc)
	assert.False(t, s.menu.shown())
	s.press(ctrlR)
	s.types("no such text")
	s.press(enter)
	s.until("it is sent", func() bool { return len(s.messages) == 1 })
	assert.False(t, s.menu.shown())
}

func TestTheTextOfAnEditorIsTheInput(t *testing.T) {
	s := newStage(t, 80, 24)
	s.types("draft")
	s.take(composedMsg{text: "one\ntwo\n"})
	assert.Equal(t, "one\ntwo", s.input.Value())
	s.take(composedMsg{err: assert.AnError})
	assert.Equal(t, "one\ntwo", s.input.Value())
	assert.NotNil(t, s.compose())

	t.Setenv("VISUAL", "printf ' more' >>")
	cmd, edited, err := ui.EditText("text", "message-*.md", 10)
	require.NoError(t, err)
	require.NoError(t, cmd.Run())
	got, err := edited()
	require.NoError(t, err)
	assert.Equal(t, "text more", got)
	_, err = os.Stat(cmd.Args[len(cmd.Args)-1])
	require.ErrorIs(t, err, os.ErrNotExist)
	cmd, edited, err = ui.EditText("a longer text", "message-*.md", 10)
	require.NoError(t, err)
	require.NoError(t, cmd.Run())
	_, err = edited()
	require.ErrorContains(t, err, "longer than 10 B")
}

// TestWithoutAShellTheChatIsNotSuspended: nothing could continue it. A session of its own has no such shell.
func TestWithoutAShellTheChatIsNotSuspended(t *testing.T) {
	if os.Getenv("IN_A_SESSION_OF_ITS_OWN") == "" {
		setsid, err := exec.LookPath("setsid")
		if err != nil {
			t.Skip("setsid is not installed: apt-get install util-linux")
		}
		self, err := filepath.Abs(os.Args[0])
		require.NoError(t, err)
		cmd := exec.Command(setsid, "--wait", self, "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "IN_A_SESSION_OF_ITS_OWN=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	s := newStage(t, 80, 24)
	s.press(tea.KeyPressMsg{Code: 'z', Mod: tea.ModCtrl})
	assert.Contains(t, s.live(), "there is no shell")
}
