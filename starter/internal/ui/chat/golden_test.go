package chat

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/workflows/turn"
)

var update = flag.Bool("update", false, "write the golden screens")

// screens are what a user sees of a chat, by name.
var screens = map[string]func(*stage){
	"empty": func(*stage) {},
	"streaming": func(s *stage) {
		s.begin("m1", "What does the parser do with a comment?")
		c := callOf("1.0", `{"path":"parser/comment.go"}`)
		c.Tool = "local/read_file"
		attempt := s.infer(nil)
		s.stream(attempt, "I read the parser first.")
		s.settle(attempt, "I read the parser first.", c)
		s.call(c, turn.OutcomeOK, "package parser")
		attempt = s.infer([]turn.CallOutcome{{CallID: c.ID}})
		s.stream(attempt, "# Comments\n\nThe **scanner** drops them:\n\n```go\nif r == '#' {\n\ts.skipLine()\n}\n```\n\n",
			"> Comments are not part of the grammar, so the parser never sees one and needs no rule for it.\n\n")
		s.prints("needs no rule")
		c = callOf("2.0", `{"path":"parser/scan.go","line":42}`)
		c.Tool = "local/read_file"
		s.settle(attempt, "It is so.", c)
		s.claim(c)
		s.prints("parser/scan.go")
	},
	"change": func(s *stage) {
		s.begin("m1", "Rename the function, and note it.")
		edit := callOf("1.0", `{"path":"parser/comment.go","old_string":"func skip() {","new_string":"func skipLine() {"}`)
		write := callOf("1.1", `{"path":"NOTES.md","content":"# Notes\n\n- skip is skipLine now\n"}`)
		edit.Tool, write.Tool = "local/edit_file", "local/write_file"
		s.settle(s.infer(nil), "", edit, write)
		s.call(edit, turn.OutcomeOK, "edited parser/comment.go: 1 replaced, the first in line 42\n@@ -40,5 +40,5 @@\n }\n \n"+
			"-func skip() {\n+func skipLine() {\n \tfor r := next(); r != '\\n'; r = next() {\n \t}")
		s.call(write, turn.OutcomeOK, "wrote NOTES.md: 33 bytes")
		s.prints("+- skip is skipLine now")
	},
	"approval": func(s *stage) {
		s.begin("m1", "Rename the function.")
		c := callOf("1.0",
			`{"path":"parser/comment.go","old_string":"func skip() {\n\treturn\n}","new_string":"func skipLine() {\n\treturn\n}"}`)
		s.settle(s.infer(nil), "", c)
		s.asks(approvalOf(c, 1))
		s.shows("Allow mcp/disk/write?")
		s.press(tab)
		for !s.currentRequest().read {
			s.types(" ")
		}
	},
	"command": func(s *stage) {
		s.begin("m1", "Write a test and run it.")
		c := callOf("1.0", `{"command":"go vet ./... \u0026\u0026\n\tgo test -run Parser ./... \u0026\u0026\n\tgit commit -m \"parser: skip lines\""}`)
		c.Tool = "local/shell"
		s.settle(s.infer(nil), "", c)
		asked := approvalOf(c, 1)
		asked.MaxGrant = turn.GrantCommand
		s.asks(asked)
		s.shows("Allow local/shell?")
		s.press(tab)
		for !s.currentRequest().read {
			s.types(" ")
		}
	},
	"merge": func(s *stage) {
		s.o.Canvases = &canvas{diff: "--- a/parser/comment.go\n+++ b/parser/comment.go\n@@ -40,5 +40,5 @@\n }\n \n" +
			"-func skip() {\n+func skipLine() {\n \tfor r := next(); r != '\\n'; r = next() {\n \t}\n",
			Summary: workspace.Summary{Head: strings.Repeat("4be1", 10), Commits: make([]workspace.Commit, 2),
				Files: []workspace.File{{Path: "NOTES.md", Added: 3}, {Path: "parser/comment.go", Added: 1, Removed: 1}}}}
		s.says("/diff parser/comment.go")
		s.prints("+func skipLine")
		s.says("/merge")
		s.shows("> merge into main")
	},
	"form": func(s *stage) {
		s.begin("m1", "Commit it.")
		s.prints("» Commit it.")
		s.hears(turn.EventQuestionAsked, elicitation(turn.Elicitation{Key: "k", Message: "Who are you?",
			Schema: json.RawMessage(fewFields)}))
		s.shows("1/3 name")
		s.press(tab)
		s.says("Ann")
		s.shows("2/3 colour")
	},
	"menu": func(s *stage) { s.types("/s") },
	"scrolled": func(s *stage) {
		var text strings.Builder
		for i := range 60 {
			fmt.Fprintf(&text, "%d. The point number %d of a long answer.\n", i+1, i+1)
		}
		s.whole("m1", "Tell me everything.", text.String())
		s.prints("1 step")
		s.press(pgUp)
	},
	"error": func(s *stage) {
		s.begin("m1", "Try it.")
		c := callOf("1.0", `{"path":"a.txt"}`)
		s.settle(s.infer(nil), "", c)
		s.call(c, turn.OutcomeError, "the disk is full")
		s.finish(turn.StateFailed, turn.FinishFailed, "the model's provider rejected the request: the key has expired")
		s.prints("the key has expired")
		s.shows("ready")
	},
}

func TestScreens(t *testing.T) {
	for name, act := range screens {
		for _, size := range [][2]int{{120, 40}, {100, 30}, {60, 15}} {
			file := fmt.Sprintf("%s-%dx%d", name, size[0], size[1])
			t.Run(file, func(t *testing.T) {
				s := newStage(t, size[0], size[1])
				act(s)
				text, image := drawn(t, s.Model.View(), size[0], size[1])
				requireGolden(t, filepath.Join("testdata", "screens", file+".txt"), text)
				if size[0] == 100 && name != "empty" && name != "scrolled" { // the pictures of docs/chat.md
					requireGolden(t, filepath.Join("..", "..", "..", "..", "docs", "images", "chat-"+name+".svg"), image)
				}
			})
		}
	}
}

// drawn returns what a terminal shows after Bubble Tea has drawn a view: as text, and as a picture.
func drawn(t *testing.T, v tea.View, width, height int) (text, image string) {
	t.Helper()
	terminal := vt10x.New(vt10x.WithSize(width, height))
	p := tea.NewProgram(still{v}, tea.WithInput(nil), tea.WithOutput(cooked{terminal}), tea.WithoutSignals(),
		tea.WithWindowSize(width, height), tea.WithColorProfile(colorprofile.TrueColor), tea.WithEnvironment(nil))
	done := make(chan error, 1)
	go func() {
		_, err := p.Run()
		done <- err
	}()
	require.Eventually(t, func() bool {
		text = rowsOf(terminal)
		rows := strings.Split(text, "\n")
		return len(rows) == height+1 && rows[height-1] != ""
	}, within, 10*time.Millisecond)
	terminal.Lock() // Bubble Tea may still write
	image = picture(terminal, width, height)
	terminal.Unlock()
	p.Kill()
	<-done
	return text, image
}

// rowsOf returns a terminal's text.
func rowsOf(terminal vt10x.Terminal) string {
	var rows []string
	for row := range strings.SplitSeq(strings.TrimRight(terminal.String(), "\n"), "\n") {
		rows = append(rows, strings.TrimRight(row, " "))
	}
	return strings.Join(rows, "\n") + "\n"
}

// cooked starts a new line at its first column, as a terminal does that is not in raw mode.
type cooked struct{ io.Writer }

func (c cooked) Write(b []byte) (int, error) {
	_, err := c.Writer.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")))
	return len(b), err
}

// still is a model that shows one view.
type still struct{ view tea.View }

func (s still) Init() tea.Cmd                       { return nil }
func (s still) Update(tea.Msg) (tea.Model, tea.Cmd) { return s, nil }
func (s still) View() tea.View                      { return s.view }

func requireGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, []byte(got)),
		"%s differs; `go test ./starter/internal/ui/chat -run TestScreens -update` "+
			"writes it. It is now:\n%s", file, got)
}
