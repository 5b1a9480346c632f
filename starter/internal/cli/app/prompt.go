package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/journal/record"
)

// maxPrompt bounds a message on standard input, in bytes.
const maxPrompt = record.MaxMessageBytes

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

// Prompt returns the message of a command: the arguments, joined by spaces, or standard input. It reads standard input
// only if the argument is "-", or if there is no argument and standard input is a pipe or a file. With another argument
// it does not read standard input, because that may be an inherited pipe that never ends.
func (a *App) Prompt(ctx context.Context, args []string) (string, error) {
	text := strings.Join(args, " ")
	if text == "-" || len(args) == 0 && readable(a.In) {
		var err error
		if text, err = readPrompt(ctx, a.In); err != nil {
			return "", err
		}
	}
	if strings.TrimSpace(text) == "" {
		return "", errEmptyPrompt
	}
	return text, nil
}

// readPrompt reads f to its end and returns the text. A read cannot be interrupted: if ctx ends first, readPrompt
// returns and its goroutine stays blocked until the program exits.
func readPrompt(ctx context.Context, f *os.File) (string, error) {
	type content struct {
		b   []byte
		err error
	}
	read := make(chan content, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(f, maxPrompt+1))
		read <- content{b, err}
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case c := <-read:
		switch {
		case c.err != nil:
			return "", Usage("reading the message from standard input: %w", c.err)
		case len(c.b) > maxPrompt:
			return "", Usage("the message on standard input is larger than %d MiB: put the text into a file of the workspace, "+
				"and tell the model to read it", maxPrompt>>20)
		case !utf8.Valid(c.b) || bytes.IndexByte(c.b, 0) >= 0:
			return "", Usage("the message on standard input is not text in UTF-8: convert it first, or put the file into the " +
				"workspace and name it in the message")
		}
		return string(c.b), nil
	}
}

// readable reports whether f is a pipe or a regular file. Reading them ends by itself, unlike reading from a terminal.
func readable(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}
