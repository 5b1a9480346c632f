package chat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/workflows/turn"
)

// canvas is the canvas of a session. It only records what the chat asks of it.
type canvas struct {
	workspace.Summary
	diff   string
	merged []workspace.MergeInput
	err    error
}

func (c *canvas) Show(context.Context, string) (workspace.Summary, error) { return c.Summary, c.err }

func (c *canvas) Diff(context.Context, string, string) (text, commit string, err error) {
	return c.diff, c.Head, c.err
}

func (c *canvas) Current(context.Context) string { return "main" }

func (c *canvas) Merge(_ context.Context, in workspace.MergeInput) (done string, err error) {
	c.merged = append(c.merged, in)
	return "merged it", c.err
}

func (c *canvas) Undo(context.Context, string) (done string, err error) { return "took it back", c.err }

// newCanvasStage returns a chat about a session that has changed a file.
func newCanvasStage(t *testing.T) (*stage, *canvas) {
	t.Helper()
	s := newStage(t, 80, 24)
	c := &canvas{diff: "--- a/color.go\n+++ b/color.go\n@@ -1,2 +1,3 @@\n-old\n+new\n+more\x00\n",
		Summary: workspace.Summary{
			Head: strings.Repeat("1a", 20), Commits: make([]workspace.Commit, 2),
			Files: []workspace.File{{Path: "color.go", Added: 2, Removed: 1}, {Path: "logo.png", Binary: true}}}}
	s.o.Canvases = c
	return s, c
}

func TestATurnThatChangesFilesSaysSo(t *testing.T) {
	s, _ := newCanvasStage(t)
	s.begin("m1", "Change it.")
	c := callOf("1.0", `{"path":"color.go"}`)
	s.settle(s.infer(nil), "", c)
	s.settleCall(c, turn.ToolResult{Outcome: turn.OutcomeOK,
		Workspace: []turn.WorkspaceEvent{{Kind: turn.EventWorkspaceCommitted, CallID: c.ID}}})
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.prints("color.go +2 -1, logo.png (binary) · /diff")
	s.whole("m2", "And now?", "Nothing.")
	s.until("both turns have ended", func() bool { return strings.Count(s.all(), "15 tokens in, 4 out") == 2 })
	assert.Equal(t, 1, strings.Count(s.all(), "/diff"), "the second turn has changed nothing")
}

func TestADiffBeginsAtItsFirstLine(t *testing.T) {
	s, c := newCanvasStage(t)
	s.says("/diff color.go")
	s.prints("diff · commit 1a1a1a1a1a · /merge")
	assert.Contains(t, s.talkLines(), "│ +new")
	c.diff += strings.Repeat("+line\n", 100) + strings.Repeat("+"+strings.Repeat("x", 100)+"\n", 2*maxDiff/100)
	s.says("/diff")
	s.prints("everturn canvas diff")
	s.shows("│ --- a/color.go")
	assert.NotContains(t, s.live(), "everturn canvas diff")
	assert.Contains(t, s.all(), "bytes; `everturn canvas diff s` shows them]")
	assert.LessOrEqual(t, len(s.entries[len(s.entries)-1].text), maxDiff+100)
	c.diff = ""
	s.says("/diff")
	s.prints("there are no changes that are not merged")
}

func TestAMergeIsThatOfTheCommitThatWasShown(t *testing.T) {
	s, c := newCanvasStage(t)
	s.says("/merge")
	s.shows("> merge into main")
	s.prints("merge into main: 2 files, 2 commits, the last one 1a1a1a1a1a")
	assert.Contains(t, s.talkLines(), "│ color.go +2 -1")
	assert.Empty(t, c.merged)
	shown := c.Head
	c.Head = strings.Repeat("2b", 20)
	s.press(enter)
	s.prints("merged it")
	s.says("/merge main")
	s.prints("the last one 2b2b2b2b2b")
	assert.Len(t, c.merged, 1, "what has not been shown is not merged")
	s.press(down, tab)
	s.says("One change")
	s.until("it is merged", func() bool { return len(c.merged) == 2 })
	assert.Equal(t, []workspace.MergeInput{
		{Action: workspace.Action{Session: "s"}, Commit: shown, Into: "main"},
		{Action: workspace.Action{Session: "s"}, Commit: c.Head, Into: "main", Squash: true, Title: "One change"},
	}, c.merged)
}

func TestAMergeThatWasShownIsForgottenWhenTheSessionGoesOn(t *testing.T) {
	s, c := newCanvasStage(t)
	s.says("/merge")
	s.shows("> merge into main")
	s.press(esc, ctrlU)
	s.begin("m1", "Change it.")
	call := callOf("1.0", `{"path":"color.go"}`)
	s.settle(s.infer(nil), "", call)
	s.settleCall(call, turn.ToolResult{Outcome: turn.OutcomeOK,
		Workspace: []turn.WorkspaceEvent{{Kind: turn.EventWorkspaceCommitted, CallID: call.ID}}})
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.prints("· /diff")
	s.says("/merge main")
	s.shows("> merge into main")
	assert.Empty(t, c.merged)
	s.press(esc, ctrlU)
	c.err = errors.New("the branch conflicts")
	s.says("/merge")
	s.prints("the branch conflicts")
}

// TestFilesOfTheTreeAreAttached names a file that the session has made, and one that it has made a link to a file of
// the user.
func TestFilesOfTheTreeAreAttached(t *testing.T) {
	s, _ := newCanvasStage(t)
	tree := t.TempDir()
	s.o.Workspace = func(string) string { return tree }
	files(t, map[string]string{"color.go": "package old\n", "secret.txt": "a key\n"})
	secret, err := filepath.Abs("secret.txt")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(tree, "color.go"), []byte("package color\n"), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(tree, "notes.txt")))
	s.says("See @notes.txt")
	s.prints("escapes from parent")
	s.press(ctrlU)
	s.types("See @col")
	s.shows("> @color.go")
	s.press(enter, enter)
	s.until("it is sent", func() bool { return len(s.messages) == 1 })
	assert.Equal(t, "See @color.go\n\n<file path=\"color.go\">\npackage color\n</file>", s.messages[0].Message.Text)
	s.says(`!cat color.go "$EVERTURN_TREE/color.go"`)
	s.prints("in your folder, not in $EVERTURN_TREE · ok")
	assert.Contains(t, spaced(s.all()), "│ package old │ package color")
	assert.Contains(t, s.commands[0].text, "which has other files than yours")
}

func TestWithoutCanvasesTheCommandsSayWhy(t *testing.T) {
	s := newStage(t, 80, 24)
	for _, command := range []string{"/diff", "/merge", "/undo"} {
		s.says(command)
	}
	assert.Equal(t, 3, strings.Count(spaced(s.all()), "no files of its own here"))
}
