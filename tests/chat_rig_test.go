package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// screen is a real terminal: a tmux of its own, with the real command in it.
type screen struct {
	t             *testing.T
	dir           string // with the server's socket
	width, height int
}

// chat runs `starter chat` in a terminal of this size. settings go before the command as env(1) takes them.
func (h *home) chat(width, height int, settings []string, args ...string) *screen {
	h.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		h.t.Skip("this test looks at a real terminal and tmux is not installed: apt-get install tmux")
	}
	dir, err := os.MkdirTemp("", "chat-") // not the test's folder: a socket's name is short
	require.NoError(h.t, err)
	s := &screen{t: h.t, dir: dir, width: width, height: height}
	h.t.Cleanup(s.close)
	command := append([]string{"new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "-c", h.dir, "env", "-i"}, h.environ...)
	command = append(command, "TERM=screen-256color", "LC_ALL=C.UTF-8")
	command = append(command, settings...)
	command = append(command, "sh", "-c", `"$@"; echo "left with $?"; exec cat`, "chat", binary(h.t, "./starter"), "chat")
	s.tmux(append(command, args...)...)
	s.tmux("set", "-g", "history-limit", "20000")
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-u", "-S", filepath.Join(s.dir, "tmux"), "-f", "/dev/null"}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "tmux %s: %s", strings.Join(args, " "), out)
	return string(out)
}

func (s *screen) close() {
	if s.t.Failed() {
		out, _ := exec.Command("tmux", "-u", "-S", filepath.Join(s.dir, "tmux"), "capture-pane", "-p", "-S", "-").CombinedOutput()
		s.t.Logf("the terminal showed:\n%s", ending(string(out)))
	}
	_ = exec.Command("tmux", "-S", filepath.Join(s.dir, "tmux"), "kill-server").Run() // it may be gone
	_ = os.RemoveAll(s.dir)
}

// visible is what the terminal shows now; whole is that with its scrollback.
func (s *screen) visible() string { return s.tmux("capture-pane", "-p") }
func (s *screen) whole() string   { return s.tmux("capture-pane", "-p", "-S", "-") }

// shows waits until the terminal shows each of the texts, wherever their lines are broken.
func (s *screen) shows(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		require.Eventually(s.t, func() bool { return strings.Contains(squeezed(s.visible()), squeezed(text)) }, within, 20*time.Millisecond, "%q is not shown", text)
	}
	s.fits()
}

// printed waits until a text stands in the terminal or its scrollback.
func (s *screen) printed(text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return strings.Contains(squeezed(s.whole()), squeezed(text)) }, within, 20*time.Millisecond, "%q is not printed", text)
}

// squeezed is a text without its white space: how that falls depends on the terminal's width.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

// was checks what stands in the terminal or its scrollback.
func (s *screen) was(texts ...string) {
	s.t.Helper()
	all := squeezed(s.whole())
	for _, text := range texts {
		assert.Contains(s.t, all, squeezed(text))
	}
}

// times is how often a text stands there.
func (s *screen) times(text string) int { return strings.Count(squeezed(s.whole()), squeezed(text)) }

// fits checks that no line is wider than the terminal and that nothing but text is in them.
func (s *screen) fits() {
	s.t.Helper()
	for line := range strings.Lines(s.visible()) {
		line = strings.TrimRight(line, "\n")
		assert.LessOrEqual(s.t, ansi.StringWidth(line), s.width, "%q", line)
		assert.Negative(s.t, strings.IndexFunc(line, unicode.IsControl), "%q", line)
	}
}

func (s *screen) types(text string) { s.t.Helper(); s.tmux("send-keys", "-l", "--", text) }
func (s *screen) press(keys ...string) {
	s.t.Helper()
	s.tmux(append([]string{"send-keys"}, keys...)...)
}
func (s *screen) says(text string) { s.t.Helper(); s.types(text); s.press("Enter") }
func (s *screen) ready()           { s.t.Helper(); s.shows("ready ·") }

// pastes puts a text into the terminal as a person's paste, in brackets.
func (s *screen) pastes(text string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "paste")
	require.NoError(s.t, os.WriteFile(file, []byte(text), 0o600))
	s.tmux("load-buffer", file)
	s.tmux("paste-buffer", "-p")
}

func (s *screen) resize(width, height int) {
	s.t.Helper()
	s.width, s.height = width, height
	s.tmux("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

// awaitKeys waits until keys decide about an approval: in the first moment they do not.
func (s *screen) awaitKeys() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return strings.Contains(s.visible(), "y allow") || strings.Contains(s.visible(), "y/n/") },
		within, 20*time.Millisecond, "nothing can be decided")
}

// allows reads the arguments to their end, page by page, and allows the call.
func (s *screen) allows() {
	s.t.Helper()
	s.awaitKeys()
	require.Eventually(s.t, func() bool {
		shown := s.visible()
		if strings.Contains(shown, "y allow this") || strings.Contains(shown, "y allow ·") || strings.Contains(shown, "y/n/a") {
			return true
		}
		s.press("PageDown")
		return false
	}, within, 50*time.Millisecond, "the arguments have no end")
	s.press("y")
}

// leaves waits for the command's end.
func (s *screen) leaves(code int) {
	s.t.Helper()
	s.printed(fmt.Sprintf("left with %d", code))
}
