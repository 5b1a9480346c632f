package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// The size of a terminal that does not report its size: the default of programs since the VT100.
const (
	defaultColumns = 80
	defaultRows    = 24
)

// sizeOf returns a terminal's size. If w is not a terminal, sizeOf returns 0 columns: its lines are not broken.
func sizeOf(w any) (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(f) {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return defaultColumns, defaultRows
	}
	return columns, rows
}

// pages are the screens of a text that the user must see before the command accepts a yes.
type pages struct {
	rows   []string
	height int
}

// pagesOf splits a text into pages for the terminal on stderr. A page leaves two rows: one for the prompt, one of the
// page before.
func (a *app) pagesOf(text string) *pages {
	columns, height := sizeOf(a.err)
	return &pages{rows: termsafe.Rows(text, columns), height: max(height-2, 1)}
}

// next removes the next page and returns it.
func (p *pages) next() string {
	n := min(len(p.rows), p.height)
	page := strings.Join(p.rows[:n], "\n")
	p.rows = p.rows[n:]
	return page
}

// left returns the number of rows not shown yet.
func (p *pages) left() int { return len(p.rows) }

func (p *pages) prompt() string {
	return fmt.Sprintf("-- %s more; Enter shows them, [n]o: ", ui.Count(p.left(), "row"))
}

// line asks for a line on the terminal. Reading cannot be interrupted: if ctx ends, the reading goroutine lives until
// the command ends.
func (a *app) line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.err, prompt)
	answer := make(chan typedLine, 1)
	go func() {
		line, err := readLine(a.in)
		answer <- typedLine{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case typed := <-answer:
		return typed.text, typed.err
	}
}

// seen shows a text page by page and reports whether the user has gone to its end.
func (a *app) seen(ctx context.Context, text string) (bool, error) {
	p := a.pagesOf(text)
	a.note("%s", p.next())
	for p.left() > 0 {
		line, err := a.line(ctx, p.prompt())
		switch {
		case ctx.Err() != nil:
			return false, err
		case err != nil || strings.TrimSpace(line) != "": // the terminal is closed, or the user wants to see no more
			return false, nil
		}
		a.note("%s", p.next())
	}
	return true, nil
}

// agrees asks a question and reports whether the answer is yes.
func (a *app) agrees(ctx context.Context, question string) (bool, error) {
	line, err := a.line(ctx, question+" [y]es, [n]o: ")
	if ctx.Err() != nil {
		return false, err
	}
	word := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (word == "y" || word == "yes"), nil
}
