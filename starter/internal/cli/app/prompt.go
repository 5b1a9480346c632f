package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/client"
)

// maxPrompt bounds a message on standard input, in bytes.
const maxPrompt = client.MaxMessageBytes

var errEmptyPrompt = Usage("the message is empty: give it as an argument, for example `everturn run \"Which files are " +
	"here?\"`, or on standard input")

// PromptOrNone is Prompt for a command whose message may be empty: it returns "" instead of an error.
func (a *App) PromptOrNone(ctx context.Context, args []string) (string, error) {
	text, err := a.Prompt(ctx, args)
	if errors.Is(err, errEmptyPrompt) {
		return "", nil
	}
	return text, err
}

// Prompt returns the message of a command: the arguments, joined by spaces, with standard input as a paragraph of its
// own. The argument "-" marks its place. Without one, standard input follows the arguments if it is a pipe or a file;
// a terminal and /dev/null are not read. Blank arguments are an error, whatever standard input is: they are probably a
// variable that is not set.
func (a *App) Prompt(ctx context.Context, args []string) (string, error) {
	before, after, dash := args, []string(nil), slices.Index(args, "-")
	if dash >= 0 {
		before, after = args[:dash], args[dash+1:]
		if slices.Contains(after, "-") {
			return "", Usage("the message has two \"-\", but standard input can only be read once: quote the message")
		}
	}
	var paragraphs []string
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			paragraphs = append(paragraphs, text)
		}
	}
	add(strings.Join(before, " "))
	if dash >= 0 || readable(a.In) && (len(args) == 0 || len(paragraphs) > 0) {
		text, err := a.readInput(ctx)
		if err != nil {
			return "", err
		}
		add(text)
	}
	add(strings.Join(after, " "))
	if len(paragraphs) == 0 {
		return "", errEmptyPrompt
	}
	return strings.Join(paragraphs, "\n\n"), nil
}

// TextOrInput returns the text, or standard input if the text is "-".
func (a *App) TextOrInput(ctx context.Context, text string) (string, error) {
	if text == "-" {
		return a.Prompt(ctx, []string{text})
	}
	if strings.TrimSpace(text) == "" {
		return "", errEmptyPrompt
	}
	return text, nil
}

// silentInput is how long standard input may send nothing before the command tells the user that it waits for it.
const silentInput = 2 * time.Second

// readInput reads standard input to its end and returns the text. A read cannot be interrupted: if ctx ends first,
// readInput returns and its goroutine stays blocked until the program exits.
func (a *App) readInput(ctx context.Context) (string, error) {
	type content struct {
		b   []byte
		err error
	}
	read := make(chan content, 1)
	silent := time.NewTimer(silentInput)
	defer silent.Stop()
	go func() {
		b, err := io.ReadAll(io.LimitReader(&timedReader{a.In, silent}, maxPrompt+1))
		read <- content{b, err}
	}()
	for noted := false; ; {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-silent.C:
			if noted {
				continue
			}
			noted = true
			a.Note("waiting for the end of standard input, which is a part of the message; to send the message without it, " +
				"add `< /dev/null`")
		case c := <-read:
			return checkInput(c.b, c.err)
		}
	}
}

// timedReader restarts a timer with each read that returns data.
type timedReader struct {
	io.Reader
	timer *time.Timer
}

func (r *timedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.timer.Reset(silentInput)
	}
	return n, err
}

// checkInput returns what was read from standard input as text, or an error if it is too large or not text.
func checkInput(b []byte, err error) (string, error) {
	switch {
	case err != nil:
		return "", Usage("reading the message from standard input: %w", err)
	case len(b) > maxPrompt:
		return "", Usage("the message on standard input is larger than %d MiB: put the text into a file of the workspace, "+
			"and tell the model to read it", maxPrompt>>20)
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		return "", Usage("the message on standard input is not text in UTF-8: convert it first, or put the file into the " +
			"workspace and name it in the message")
	}
	return string(b), nil
}

// readable reports whether f is a pipe or a regular file. Reading them ends by itself, unlike reading from a terminal.
func readable(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}
