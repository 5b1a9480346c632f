package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/muesli/cancelreader"
	"golang.org/x/term"

	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// The size of a terminal that does not report its size: the default of programs since the VT100.
const (
	defaultColumns = 80
	defaultRows    = 24
)

// SizeOf returns the size of the terminal w in columns and rows. If w is not a terminal, SizeOf returns 0 columns, for
// which lines are not wrapped.
func SizeOf(w any) (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(f) {
		return 0, 0
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return defaultColumns, defaultRows
	}
	return columns, rows
}

// Pages are the pages of a text that the user must see to its end before the command accepts a yes.
type Pages struct {
	rows   []string // not shown yet
	height int      // rows of a page
}

// PagesOf splits a text into pages for the terminal on stderr. A page leaves two rows free: one for the prompt, and one
// that still shows the end of the previous page.
func (a *App) PagesOf(text string) *Pages {
	columns, height := SizeOf(a.Err)
	return &Pages{rows: termsafe.Rows(text, columns), height: max(height-2, 1)}
}

// Next removes the next page and returns it.
func (p *Pages) Next() string {
	n := min(len(p.rows), p.height)
	page := strings.Join(p.rows[:n], "\n")
	p.rows = p.rows[n:]
	return page
}

// Left returns the number of rows not shown yet.
func (p *Pages) Left() int { return len(p.rows) }

// Prompt returns the prompt below a page that is not the last one.
func (p *Pages) Prompt() string {
	return fmt.Sprintf("-- %s more; Enter shows them, [n]o: ", ui.Count(p.Left(), "row"))
}

// Line prints a prompt and reads a line from the terminal, without its newline. If ctx ends first, Line returns the
// cause.
func (a *App) Line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(a.Err, prompt)
	r, err := cancelreader.NewReader(a.In)
	if err != nil {
		return "", fmt.Errorf("reading from the terminal: %w", err)
	}
	defer r.Close()
	defer context.AfterFunc(ctx, func() { r.Cancel() })()
	line, err := readLine(r)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return line, err
}

// Draws reports whether the command can show a form, which needs a terminal that can move its cursor.
func (a *App) Draws() bool { return a.OnTerminal() && a.Lookup("TERM") != "dumb" }

// RunForm shows a form on the terminal; Draws must be true. The error wraps ErrInterrupted if the user presses Ctrl-C.
func (a *App) RunForm(ctx context.Context, d *form.Dialog) (turn.ElicitationResponse, error) {
	out, _ := a.Err.(*os.File) // a terminal, because Draws is true
	environ := a.Environ
	if !a.Colored(a.Err) {
		environ = append(slices.Clone(environ), "NO_COLOR=1")
	}
	r, err := d.Run(ctx, a.In, out, environ)
	if errors.Is(err, form.ErrInterrupted) {
		err = &ExitError{Code: ExitCancelled, Cause: ErrInterrupted}
	}
	return r, err
}

// Seen shows a text page by page and reports whether the user has seen all of it. After each page the user presses
// Enter for the next one; any other answer ends the text, and so does the end of the input. Seen returns an error only
// if ctx ends.
func (a *App) Seen(ctx context.Context, text string) (bool, error) {
	p := a.PagesOf(text)
	a.Note("%s", p.Next())
	for p.Left() > 0 {
		line, err := a.Line(ctx, p.Prompt())
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil || strings.TrimSpace(line) != "": // the terminal is closed, or the user wants to see no more
			return false, nil
		}
		a.Note("%s", p.Next())
	}
	return true, nil
}

// Agrees asks a question and reports whether the user's answer is yes. If the terminal is closed, the answer is no; if
// ctx ends, Agrees returns an error.
func (a *App) Agrees(ctx context.Context, question string) (bool, error) {
	line, err := a.Line(ctx, question+" [y]es, [n]o: ")
	if ctx.Err() != nil { // perhaps after Line has read the answer
		return false, context.Cause(ctx)
	}
	word := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (word == "y" || word == "yes"), nil
}

// maxLine bounds the length of a typed line, in bytes. A terminal buffers at most 4,096 bytes (termios(3)).
const maxLine = 64 << 10

// readLine reads a line and returns it without its newline. It reads byte by byte, so that it consumes nothing after
// the newline. A line that ends without a newline is an error.
func readLine(f io.Reader) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < maxLine {
		n, err := f.Read(b)
		switch {
		case n == 1 && b[0] == '\n':
			return string(line), nil
		case n == 1:
			line = append(line, b[0])
		case err != nil:
			return "", err
		}
	}
	return "", errors.New("the line is too long")
}
