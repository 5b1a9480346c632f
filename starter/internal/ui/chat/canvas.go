package chat

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"charm.land/bubbles/v2/list"
	tea "charm.land/bubbletea/v2"

	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Commands about what the session has changed in its tree.

// maxDiff bounds the diff that /diff shows, in bytes.
const maxDiff = 512 << 10

// hasCanvases reports whether the session has a canvas on this machine, and otherwise says why the command has no effect.
func (m *Model) hasCanvases() bool {
	if m.o.Canvases == nil {
		m.printError("the session has no files of its own here: sessions share theirs (workspace.mode), or a worker " +
			"elsewhere " +
			"has them")
	}
	return m.o.Canvases != nil
}

// diffMsg is what a session has changed, as /diff shows it.
type diffMsg struct {
	session, text, commit string
}

// diffCommand shows what the session has changed, in the file that the argument names or in all.
func (m *Model) diffCommand(file string) tea.Cmd {
	if !m.hasCanvases() {
		return nil
	}
	session := m.session
	return m.background(func(ctx context.Context) tea.Msg {
		text, commit, err := m.o.Canvases.Diff(ctx, session, file)
		if err != nil {
			return replyMsg{err: err}
		}
		return diffMsg{session, text, commit}
	})
}

// showDiff shows a diff. A long one is scrolled to its beginning.
func (m *Model) showDiff(msg diffMsg) {
	text := strings.TrimSuffix(msg.text, "\n")
	switch {
	case msg.session != m.session:
		return
	case text == "":
		m.note("there are no changes that are not merged")
		return
	case len(text) > maxDiff:
		end := strings.LastIndexByte(text[:maxDiff], '\n')
		text = fmt.Sprintf("%s\n[cut: %d bytes; `everturn canvas diff %s` shows them]", text[:max(0, end)],
			len(text)-max(0, end),
			termsafe.Quoted(msg.session))
	}
	m.reveal = m.add(&entry{kind: entryDiff, open: true, text: text,
		head: fmt.Sprintf("diff · commit %.10s · /merge", msg.commit)})
}

// toMerge is what /merge has shown last: a merge merges exactly that. Its session is empty if nothing is shown, or if
// the session has changed files since.
type toMerge struct {
	workspace.Summary
	session, into string
}

// mergeMsg is the summary of a canvas that the user may merge.
type mergeMsg struct {
	toMerge
	err error
}

// mergeCommand merges what it has shown before into the branch that is the first word of the argument. "squash" after
// the branch makes one commit, and further words are its message. Without a branch, or if it has not shown what it would
// merge, it shows that and offers to merge it.
func (m *Model) mergeCommand(argument string) tea.Cmd {
	if !m.hasCanvases() {
		return nil
	}
	into, rest, _ := strings.Cut(argument, " ")
	shown, session := m.toMerge, m.session
	m.toMerge = toMerge{}
	if into == "" || shown.session != session || shown.into != into {
		return m.background(func(ctx context.Context) tea.Msg {
			s, err := m.o.Canvases.Show(ctx, session)
			return mergeMsg{toMerge{s, session, cmp.Or(into, m.o.Canvases.Current(ctx))}, err}
		})
	}
	title, squash := strings.CutPrefix(rest+" ", "squash ")
	in := workspace.MergeInput{Action: workspace.Action{Session: session}, Commit: shown.Head, Into: into, Squash: squash,
		Title: strings.TrimSpace(title)}
	return m.background(func(ctx context.Context) tea.Msg {
		done, err := m.o.Canvases.Merge(ctx, in)
		if err != nil {
			return replyMsg{err: err}
		}
		return replyMsg{lines: []string{done}}
	})
}

// shownFiles is how many files of a merge are named.
const shownFiles = 20

// offerMerge shows what a merge would bring, and offers the ways to merge in the menu.
func (m *Model) offerMerge(msg mergeMsg) tea.Cmd {
	switch {
	case msg.session != m.session:
		return nil
	case msg.err != nil:
		m.printError("%v", msg.err)
		return nil
	case len(msg.Files) == 0:
		m.note("there are no changes that are not merged")
		return nil
	case msg.into == "":
		m.printError("no branch is checked out; /merge BRANCH names one")
		return nil
	}
	m.note("merge into %s: %s, %s, the last one %.10s", ui.Preview(msg.into), ui.Count(len(msg.Files), "file"),
		ui.Count(len(msg.Commits), "commit"), msg.Head)
	var names []string
	for _, f := range msg.Files[:min(len(msg.Files), shownFiles)] {
		names = append(names, ui.ChangedFile(f))
	}
	if more := len(msg.Files) - shownFiles; more > 0 {
		names = append(names, fmt.Sprintf("… %d more; /diff shows them", more))
	}
	m.addText(entryQuoted, strings.Join(names, "\n"))
	if m.input.Value() != "" || m.reason != "" { // the user is typing something else
		m.note("/merge %s merges exactly this", ui.Preview(msg.into))
		m.toMerge = msg.toMerge
		return nil
	}
	m.toMerge = msg.toMerge
	return m.offer("/merge ")
}

// mergeChoices returns the ways to merge what was shown that begin with the text in the input. The user may also go on
// typing a message for the commit.
func (m *Model) mergeChoices(text string) (items []list.Item) {
	into := m.toMerge.into
	if m.toMerge.session != m.session || termsafe.Line(into, 200) != into {
		return nil
	}
	for _, c := range []choice{
		{text: "/merge " + into, label: "merge into " + into, does: "with a merge commit"},
		{text: "/merge " + into + " squash", label: "squash into " + into, does: "as one commit; Tab: type its message"},
	} {
		if strings.HasPrefix(c.text, text) {
			items = append(items, c)
		}
	}
	return items
}

// undoCommand takes back the last commit of the session's canvas.
func (m *Model) undoCommand(string) tea.Cmd {
	if !m.hasCanvases() {
		return nil
	}
	session := m.session
	return m.background(func(ctx context.Context) tea.Msg {
		done, err := m.o.Canvases.Undo(ctx, session)
		if err != nil {
			return replyMsg{err: err}
		}
		return replyMsg{lines: []string{done}}
	})
}

// summarizeChanges reads what the session has changed, and shows it in one line.
func (m *Model) summarizeChanges() tea.Cmd {
	session := m.session
	return m.background(func(ctx context.Context) tea.Msg {
		s, err := m.o.Canvases.Show(ctx, session)
		if err != nil || len(s.Files) == 0 {
			return nil // it is merged or dropped already
		}
		return replyMsg{lines: []string{ui.ChangedFiles(s.Files) + " · /diff"}}
	})
}
