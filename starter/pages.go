package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/everturn/everturn/starter/terminal"
)

// The size of a terminal that does not tell its own: what programs have assumed since the VT100.
const (
	usualColumns = 80
	usualRows    = 24
)

// sizeOf is a terminal's size. What is no terminal has no columns: its lines are as long as they are.
func sizeOf(w any) (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(f) {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return usualColumns, usualRows
	}
	return columns, rows
}

// pages are what a person must have seen before a yes is taken, cut into what fits on the screen.
type pages struct {
	rows   []string
	height int
}

// pagesOf cuts a text for the terminal of the command's messages. The prompt and a row of the page before stay in sight.
func (a *app) pagesOf(text string) *pages {
	columns, height := sizeOf(a.err)
	return &pages{rows: terminal.Rows(text, columns), height: max(height-2, 1)}
}

// next is the next page.
func (p *pages) next() string {
	n := min(len(p.rows), p.height)
	page := strings.Join(p.rows[:n], "\n")
	p.rows = p.rows[n:]
	return page
}

// left is how many rows were not shown yet.
func (p *pages) left() int { return len(p.rows) }

func (p *pages) prompt() string {
	return fmt.Sprintf("-- %s more; Enter shows them, [n]o: ", plural(p.left(), "row"))
}

// line asks for a line on the terminal. Reading cannot be interrupted: it is left behind when the command ends.
func (a *app) line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.err, prompt)
	answer := make(chan typed, 1)
	go func() {
		line, err := readLine(a.in)
		answer <- typed{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case said := <-answer:
		return said.line, said.err
	}
}

// seen shows a text page by page and reports whether the person has gone to its end.
func (a *app) seen(ctx context.Context, text string) (bool, error) {
	p := a.pagesOf(text)
	a.note("%s", p.next())
	for p.left() > 0 {
		line, err := a.line(ctx, p.prompt())
		switch {
		case ctx.Err() != nil:
			return false, err
		case err != nil || strings.TrimSpace(line) != "": // the terminal has no more to say, or the person has seen enough
			return false, nil
		}
		a.note("%s", p.next())
	}
	return true, nil
}

// agrees asks a question that only a yes answers.
func (a *app) agrees(ctx context.Context, question string) (bool, error) {
	line, err := a.line(ctx, question+" [y]es, [n]o: ")
	if ctx.Err() != nil {
		return false, err
	}
	word := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (word == "y" || word == "yes"), nil
}
