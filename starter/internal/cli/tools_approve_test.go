package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/tests/stdio"
	"github.com/everturn/everturn/workflows/turn"
)

// pushTool is a tool as its server describes it.
func pushTool(description, hash string) turn.Descriptor {
	return turn.Descriptor{ID: "mcp/git/push", Wire: "mcp_git_push", Description: description,
		Schema: json.RawMessage(`{"type":"object"}`), Hash: strings.Repeat(hash, 32), Activity: turn.ActivityRegular,
		Risk: turn.RiskMedium}
}

// publish puts tools of git into a journal, as a worker does.
func publish(t *testing.T, j *journal.DB, tools ...turn.Descriptor) {
	t.Helper()
	require.NoError(t, j.PublishCatalogue(t.Context(),
		turn.Catalogue{Server: "git", Hash: tools[0].Hash, ConfigHash: "setup", Tools: tools}))
}

// drifting is a folder whose journal has a changed tool and a new one.
func drifting(t *testing.T) (*console, *journal.DB) {
	t.Helper()
	c := newConsole(t)
	require.NoError(t, os.Mkdir(".everturn", 0o700))
	j, err := sqlite.Open(t.Context(), filepath.Join(".everturn", "journal.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	publish(t, j, pushTool("Pushes.", "ab"))
	force := pushTool("Pushes by force.", "ef")
	force.ID, force.Wire = "mcp/git/force", "mcp_git_force"
	publish(t, j, pushTool("Pushes, and tells everybody.", "cd"), force)
	return c, j
}

func TestDriftIsShownAndApprovedByTheCommandLine(t *testing.T) {
	c, _ := drifting(t)
	require.Equal(t, app.ExitFailed, c.run(t, "tools", "diff"))
	assert.Contains(t, c.out.String(), "mcp/git/force is new (hash efefefefefefefefefefefefefefefef)")
	assert.Contains(t, c.out.String(), "-Pushes.\n+Pushes, and tells everybody.\n")
	assert.Contains(t, c.err.String(), "  everturn tools approve git mcp/git/push --hash cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd --yes\n")

	require.Equal(t, app.ExitConfig, c.run(t, "tools", "approve", "git", "--yes"))
	assert.Contains(t, c.err.String(), "2 tools of git are quarantined")
	require.Equal(t, app.ExitConfig, c.run(t, "tools", "approve", "git", "push"))
	assert.Contains(t, c.err.String(), "no terminal to confirm on")
	require.Equal(t, app.ExitFailed, c.run(t, "tools", "approve", "git", "push", "--hash", "abababababababababababababababab", "--yes"))
	assert.Contains(t, c.err.String(),
		"--hash abababababababababa… is not the current hash of mcp/git/push; look at it with `everturn tools diff git`, "+
			"then approve it with\n  everturn tools approve git mcp/git/push --hash cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd --yes\n")
	require.Equal(t, app.ExitFailed, c.run(t, "tools", "diff", "git"), "nothing was accepted so far")

	require.Equal(t, app.ExitAnswered, c.run(t, "tools", "approve", "git", "push", "--hash", "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd", "--yes"))
	assert.Contains(t, c.err.String(),
		"approved mcp/git/push (hash cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd)\nthis takes effect for turns that begin from now on")
	require.Equal(t, app.ExitFailed, c.run(t, "tools", "diff"))
	assert.NotContains(t, c.out.String(), "mcp/git/push")
	require.Equal(t, app.ExitAnswered, c.run(t, "tools", "approve", "git", "--all", "-y"))
	require.Equal(t, app.ExitAnswered, c.run(t, "tools", "diff"))
	assert.Equal(t, "no tool is quarantined\n", c.err.String())
	require.Equal(t, app.ExitAnswered, c.run(t, "__complete", "tools", "approve", ""))
	assert.NotContains(t, c.out.String(), "git")
}

// keyed is what a person types when a prompt has come.
type keyed struct {
	prompt string
	types  func() string
}

func says(prompt, line string) keyed { return keyed{prompt, func() string { return line }} }

// onTerminal runs a command line on a terminal on which lines are typed, each when its prompt has come, and returns
// what the terminal showed.
func (c *console) onTerminal(t *testing.T, code int, lines []keyed, args ...string) string {
	t.Helper()
	near, far := stdio.Pseudoterminal(t)
	ended := make(chan int, 1)
	go func() {
		a := &app.App{Streams: app.Streams{In: far, Out: far, Err: far}, Environ: append(c.environ, "NO_COLOR=1")}
		ended <- execute(t.Context(), a, args, c.signals)
		far.Close()
	}()
	stuck := time.AfterFunc(20*time.Second, func() { near.Close() }) // the program is hung up then
	defer stuck.Stop()
	var shown []byte
	seen := 0
	for b := make([]byte, 4096); ; {
		n, err := near.Read(b)
		shown = append(shown, b[:n]...)
		for len(lines) > 0 && bytes.Contains(shown[seen:], []byte(lines[0].prompt)) {
			seen = len(shown)
			fmt.Fprintln(near, lines[0].types())
			lines = lines[1:]
		}
		if err != nil { // the far end is closed
			break
		}
	}
	near.Close()
	assert.Empty(t, lines, "%s", shown)
	assert.Equal(t, code, <-ended, "%s", shown)
	return string(bytes.ReplaceAll(shown, []byte("\r\n"), []byte("\n")))
}

func TestApprovingOnATerminalShowsAllOfItFirst(t *testing.T) {
	c, j := drifting(t)
	long := pushTool("Pushes.", "01")
	for i := range 60 {
		long.Description += fmt.Sprintf("\nline %d", i)
	}
	publish(t, j, long)
	shown := c.onTerminal(t, app.ExitAnswered, []keyed{says("rows more; Enter", ""), says("rows more; Enter", "y")},
		"tools",
		"approve", "git")
	assert.Contains(t, shown, "nothing was approved")
	assert.NotContains(t, shown, "line 59", "a yes is not taken before its end")
	shown = c.onTerminal(t, app.ExitAnswered, []keyed{says("rows more; Enter", ""), says("rows more; Enter", ""),
		says("rows more; Enter", ""), says("as shown?", "y")}, "tools", "approve", "git")
	assert.Contains(t, shown, "+line 59\n")
	assert.Contains(t, shown, "approved mcp/git/push (hash 01010101010101010101010101010101)")
}

func TestWhatChangesWhileItIsLookedAtIsNotApproved(t *testing.T) {
	c, j := drifting(t)
	shown := c.onTerminal(t, app.ExitFailed, []keyed{{"as shown?", func() string {
		publish(t, j, pushTool("Pushes, and sends your keys.", "99"))
		return "yes"
	}}}, "tools", "approve", "git", "push")
	assert.Contains(t, shown, "nothing was approved: a tool has changed again; look again with `everturn tools diff git`")
	require.Equal(t, app.ExitFailed, c.run(t, "tools", "diff"))
}

func TestToolsDiffNeedsAJournal(t *testing.T) {
	c := newConsole(t)
	assert.Equal(t, app.ExitConfig, c.run(t, "tools", "diff"))
	assert.Contains(t, c.err.String(), "there is no journal")
}
