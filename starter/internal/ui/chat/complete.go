package chat

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"charm.land/bubbles/v2/list"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// menu completes the word in the input: a command after a slash, its argument, or a file's path after an @.
type menu struct {
	list    list.Model
	word    string   // the word before the cursor, or a command with its argument
	closed  string   // the word for which the user has closed the menu
	files   filesMsg // the paths that it offers after an @
	reading bool     // files have been read, or are being read
	listing string   // the command in the input whose choices have been read, or are being read; empty if there is none
	// searching means that the menu offers the texts of the history that contain the input.
	searching bool
}

// choice is an item of the menu.
type choice struct {
	text     string // what replaces the word
	label    string // what the menu shows; empty: text
	does     string // what a command does, for the user
	argument bool   // the command takes an argument
}

func (c choice) FilterValue() string { return c.text }

// delegate draws the items of the menu.
type delegate struct{ m *Model }

func (delegate) Height() int                         { return 1 }
func (delegate) Spacing() int                        { return 0 }
func (delegate) Update(tea.Msg, *list.Model) tea.Cmd { return nil }

// Render implements list.ItemDelegate. It draws a choice as one line.
func (d delegate) Render(w io.Writer, l list.Model, index int, item list.Item) {
	c := item.(choice)
	label := cmp.Or(c.label, c.text)
	line := "  " + label
	if c.does != "" {
		line += strings.Repeat(" ", max(1, 18-len(label))) + c.does
	}
	style := d.m.theme.dim
	if index == l.Index() {
		line, style = "> "+line[2:], d.m.theme.accent
	}
	io.WriteString(w, style.Render(cutWords(line, d.m.cols())))
}

// cutWords shortens a line to width columns, if possible at the end of a word, and adds an ellipsis.
func cutWords(line string, width int) string {
	if wrapped := wrapText(line, max(1, width-1)); len(wrapped) > 1 {
		return strings.TrimRight(wrapped[0], " ") + "…"
	}
	return line
}

// newMenu returns an empty menu, a list without decoration.
func newMenu() menu {
	l := list.New(nil, delegate{}, 0, 0)
	l.SetShowTitle(false)
	l.SetShowStatusBar(false)
	l.SetShowHelp(false)
	l.SetShowPagination(false)
	l.SetFilteringEnabled(false)
	return menu{list: l}
}

func (c *menu) shown() bool { return len(c.list.Items()) > 0 }

// view returns the lines of the menu, at most rows; nil if it is not shown.
func (c *menu) view(m *Model, rows int) []string {
	if !c.shown() || rows < 1 {
		return nil
	}
	c.list.SetDelegate(delegate{m})
	all := len(c.list.Items())
	if all <= rows || rows < 3 {
		c.list.SetSize(m.cols(), min(rows, all))
		return strings.Split(c.list.View(), "\n")
	}
	c.list.SetSize(m.cols(), rows-1) // the last row says that there are more
	more := fmt.Sprintf("  %d of %d; ↑↓ shows more", c.list.Index()+1, all)
	return append(strings.Split(c.list.View(), "\n"), m.theme.dim.Render(cutWidth(more, m.cols())))
}

// complete updates the menu for the last word of the input. The first time that the word begins with an @, and
// again after the session has changed its tree, it returns the command that reads the files.
func (m *Model) complete() tea.Cmd {
	c := &m.menu
	text := m.input.Value()
	c.word = text[strings.LastIndexAny(text, " \n\t")+1:]
	var items []list.Item
	var cmd tea.Cmd
	command, _, isArgument := strings.Cut(text, " ")
	isArgument = isArgument && (command == "/model" || command == "/effort" || command == "/sessions" ||
		command == "/fork" ||
		command == "/merge")
	if isArgument {
		c.word = text
	}
	if !isArgument {
		c.listing = "" // the next command reads its choices again
	}
	closedByUser := c.closed != "" && c.word == c.closed
	switch {
	case m.focused || m.reason != "" || closedByUser: // no menu
	case c.searching:
		items = m.history.matching(text)
	case isArgument:
		items, cmd = m.argumentChoices(text)
	case strings.HasPrefix(text, "/") && c.word == text:
		items = commandChoices(text)
	case strings.HasPrefix(c.word, "@"):
		items = matchingFiles(c.word[1:], c.files)
		if !c.reading {
			c.reading = true
			dir := cmp.Or(m.tree(), ".")
			cmd = m.background(func(ctx context.Context) tea.Msg { return readFiles(ctx, dir) })
		}
	}
	if c.word != c.closed { // the user has gone on typing: the menu may open again
		c.closed = ""
	}
	c.list.SetItems(items)
	c.list.Select(0)
	return cmd
}

// commandChoices returns the commands that begin with text, which includes the slash.
func commandChoices(text string) []list.Item {
	var items []list.Item
	for _, s := range slashCommands() {
		if strings.HasPrefix("/"+s.name, text) {
			items = append(items, choice{text: "/" + s.name, does: s.does, argument: s.argument != ""})
		}
	}
	return items
}

// shownChoices is how many files, or arguments of a command, the menu offers.
const shownChoices = 50

// matchingFiles returns the files whose paths match term best, the best one first, at most shownChoices. An empty term
// matches all files.
func matchingFiles(term string, files []string) []list.Item {
	var items []list.Item
	if term == "" {
		for _, file := range files[:min(len(files), shownChoices)] {
			items = append(items, choice{text: mentionOf(file)})
		}
		return items
	}
	ranks := list.DefaultFilter(term, files)
	for _, r := range ranks[:min(len(ranks), shownChoices)] {
		items = append(items, choice{text: mentionOf(files[r.Index])})
	}
	return items
}

// mentionOf returns the word with which a message names a file.
func mentionOf(file string) string {
	if strings.Contains(file, " ") {
		return `@"` + file + `"`
	}
	return "@" + file
}

// menuKey handles a key while the menu is shown. It returns false if the key is not for the menu: the input then
// handles it.
func (m *Model) menuKey(name string) (cmd tea.Cmd, handled bool) {
	c := &m.menu
	chosen, _ := c.list.SelectedItem().(choice)
	switch name {
	case "up", "ctrl+p":
		c.list.CursorUp()
		return nil, true
	case "down", "ctrl+n":
		c.list.CursorDown()
		return nil, true
	}
	if c.searching {
		return m.searchKey(name, chosen)
	}
	switch name {
	case "esc":
		c.closed = c.word
		return m.complete(), true
	case "enter":
		if c.word == chosen.text { // nothing to complete: Enter submits the input
			return nil, false
		}
		cmd = m.acceptChoice(chosen)
		if strings.HasPrefix(chosen.text, "/") && !chosen.argument { // the command is complete
			return m.submit(), true
		}
	case "tab":
		cmd = m.acceptChoice(chosen)
	default:
		return nil, false
	}
	return cmd, true
}

// searchKey is menuKey while the menu offers texts of the history.
func (m *Model) searchKey(name string, chosen choice) (cmd tea.Cmd, handled bool) {
	switch name {
	case "ctrl+r":
		m.menu.list.CursorDown()
		return nil, true
	case "enter", "tab":
		m.pastes = pastes{}
		m.setInput(chosen.text)
	case "esc":
	default:
		return nil, false
	}
	m.menu.searching = false
	return m.complete(), true
}

// acceptChoice replaces the last word of the input with a choice.
func (m *Model) acceptChoice(chosen choice) tea.Cmd {
	m.input.SetValue(strings.TrimSuffix(m.input.Value(), m.menu.word) + chosen.text + " ")
	m.input.MoveToEnd()
	return m.complete()
}

// filesMsg are the paths of the files below the session's tree, or below the current directory: see Model.tree.
type filesMsg []string

// maxFiles bounds the paths that the menu offers, and maxVisits the paths that readFiles visits: the directory may be a
// whole disk.
const (
	maxFiles  = 5000
	maxVisits = 50_000
)

// readFiles returns the files below a directory as a filesMsg. It leaves out hidden files and node_modules,
// and paths with quotes or unprintable characters, which a message cannot name.
func readFiles(ctx context.Context, dir string) tea.Msg {
	var files filesMsg
	root, visits := os.DirFS(dir), 0
	_ = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		hidden := name != "." && strings.HasPrefix(name, ".") || name == "node_modules"
		visits++
		switch {
		case ctx.Err() != nil || len(files) >= maxFiles || visits > maxVisits:
			return fs.SkipAll
		case err != nil || hidden && d.IsDir():
			return fs.SkipDir
		case !d.IsDir() && !hidden && termsafe.Line(path, 200) == path && !strings.Contains(path, `"`):
			files = append(files, path)
		}
		return nil
	})
	return files
}
