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

// screen is a real terminal: a tmux server of its own that runs the real command.
type screen struct {
	t     *testing.T
	dir   string // holds the tmux server's socket
	width int
}

// chat runs `everturn chat` in a terminal of this size. settings go before the command as env(1) takes them.
func (h *userFolder) chat(width, height int, settings []string, args ...string) *screen {
	h.t.Helper()
	return h.screen(width, height, settings, append([]string{"chat"}, args...)...)
}

// interactive is a script that runs a command as a shell does: if the command is suspended, Enter continues it.
const interactive = `set -m; "$@"; code=$?
while kill -0 %1 2>/dev/null; do echo suspended; read enter; fg >/dev/null; code=$?; done
echo "left with $code"; exec cat`

// screen runs the command line in a terminal of this size.
func (h *userFolder) screen(width, height int, settings []string, args ...string) *screen {
	h.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		h.t.Skip("this test looks at a real terminal and tmux is not installed: apt-get install tmux")
	}
	dir, err := os.MkdirTemp("", "chat-") // not t.TempDir: the path of a socket must be short
	require.NoError(h.t, err)
	h.trust()
	s := &screen{t: h.t, dir: dir, width: width}
	h.t.Cleanup(s.close)
	command := append([]string{"new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "-c", h.dir, "env",
		"-i"}, h.environ...)
	command = append(command, "TERM=screen-256color", "LC_ALL=C.UTF-8")
	command = append(command, settings...)
	command = append(command, "sh", "-c", interactive, "everturn", binary(h.t, "./starter"))
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
		out, _ := exec.Command("tmux", "-u", "-S", filepath.Join(s.dir, "tmux"), "capture-pane", "-p", "-S",
			"-").CombinedOutput()
		s.t.Logf("the terminal showed:\n%s", ending(string(out)))
	}
	_ = exec.Command("tmux", "-S", filepath.Join(s.dir, "tmux"), "kill-server").Run() // the server may have exited already
	_ = os.RemoveAll(s.dir)
}

// visible returns what the terminal shows now.
func (s *screen) visible() string { return s.tmux("capture-pane", "-p") }

// shows waits until the terminal shows each of the texts, however their lines are wrapped.
func (s *screen) shows(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		require.Eventually(s.t, func() bool { return strings.Contains(squeezed(s.visible()), squeezed(text)) }, within,
			20*time.Millisecond, "%q is not shown", text)
	}
	s.fits()
}

// squeezed returns a text without its white space, which depends on the terminal's width.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }

// fits checks that no visible line is wider than the terminal or has control characters.
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

// awaitKeys waits until keys decide an approval or fill in a form. The chat ignores them for a moment after it appears.
func (s *screen) awaitKeys() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		shown := s.visible()
		return strings.Contains(shown, "y allow") || strings.Contains(shown, "space show the rest") ||
			strings.Contains(shown, "esc type a message")
	}, within, 20*time.Millisecond, "nothing can be decided")
}

// allows reads the arguments to their end, page by page, and allows the call.
func (s *screen) allows() {
	s.t.Helper()
	s.awaitKeys()
	require.Eventually(s.t, func() bool {
		if strings.Contains(s.visible(), "y allow") {
			return true
		}
		s.press("PageDown")
		return false
	}, within, 50*time.Millisecond, "the arguments have no end")
	s.press("y")
}

// bell returns a function that waits until the terminal's bell has rung since.
func (s *screen) bell() (rung func()) {
	s.t.Helper()
	s.tmux("set-hook", "-g", "alert-bell", "set -g @bell rung")
	return func() {
		s.t.Helper()
		require.Eventually(s.t, func() bool { return strings.Contains(s.tmux("show", "-gqv", "@bell"), "rung") }, within,
			20*time.Millisecond, "the bell does not ring")
	}
}

// leaves waits for the command to exit and checks its code.
func (s *screen) leaves(code int) {
	s.t.Helper()
	s.shows(fmt.Sprintf("left with %d", code))
}
