package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/everturn/everturn/internal/redact"
)

// ReadInput are the arguments of read_file.
type ReadInput struct {
	Path   string `json:"path" jsonschema:"file to read, relative to the workspace"`
	Offset int64  `json:"offset,omitempty" jsonschema:"byte to begin at; 0 when left out"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many bytes to read, up to 65024, which is also the default"`
}

// read implements the tool read_file: it returns a part of a text file, with a note if that does not reach the end.
func (w *workspace) read(_ context.Context, in ReadInput) (string, error) {
	f, name, size, err := w.begin().open(in.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if binary, err := isBinary(f); err != nil || binary {
		return fmt.Sprintf("[%s is a binary file of %d bytes; it is not shown]\n", name, size), err
	}
	limit := in.Limit
	if limit <= 0 || limit > maxReadBytes {
		limit = maxReadBytes
	}
	limit = max(limit, utf8.UTFMax) // at least one whole rune, so that each read makes progress
	if in.Offset < 0 || in.Offset > size {
		return "", fmt.Errorf("%s: offset %d is outside of its %d bytes", name, in.Offset, size)
	}
	before := min(in.Offset, redact.Reach)
	buf := make([]byte, int(before)+limit+redact.Reach)
	n, err := f.ReadAt(buf, in.Offset-before)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", explain(name, err)
	}
	masked := w.secrets.Mask(string(buf[:n]))
	part := masked[min(int(before), n):]
	part = part[:min(limit, len(part))]
	n = len(part)
	text := wholeRunes([]byte(part), in.Offset > 0, n < limit)
	if end := in.Offset + int64(n); end < size {
		next := end - int64(n-len(text.skippedHead)-len(text.body)) // without an incomplete rune at the end
		return fmt.Sprintf("%s\n[cut: bytes %d to %d of %d; read on with offset %d]\n", text.body, in.Offset, next, size,
			next), nil
	}
	return string(text.body), nil
}

// span is a part of a file. body consists of whole runes, and skippedHead is the incomplete rune before it, if any.
type span struct{ skippedHead, body []byte }

// wholeRunes removes the incomplete runes at the beginning and the end of b. mayCutHead means that b may begin inside
// a rune; atEnd means that b ends with the file, so that its end is not cut.
func wholeRunes(b []byte, mayCutHead, atEnd bool) span {
	head := 0
	for mayCutHead && head < len(b) && head < utf8.UTFMax-1 && !utf8.RuneStart(b[head]) {
		head++
	}
	body := b[head:]
	if !atEnd {
		// Look back for the beginning of the last rune, and remove that rune if it is incomplete.
		for i := 1; i < utf8.UTFMax && i <= len(body); i++ {
			if last := body[len(body)-i:]; utf8.RuneStart(last[0]) {
				if !utf8.FullRune(last) {
					body = body[:len(body)-i]
				}
				break
			}
		}
	}
	return span{skippedHead: b[:head], body: body}
}

// open opens the regular file at a path from the model. name is the path as clean returns it, and size is in bytes.
func (c *call) open(given string) (f *os.File, name string, size int64, err error) {
	p, err := c.find(given, reading)
	if err != nil {
		return nil, "", 0, err
	}
	defer p.Close()
	f, info, err := p.open()
	if err != nil {
		return nil, "", 0, err
	}
	return f, p.name, info.Size(), nil
}

// isBinary reports whether the beginning of a file contains a NUL byte, which is how git detects binary files.
func isBinary(f *os.File) (bool, error) {
	head := make([]byte, sniffBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("reading: %w", err)
	}
	return bytes.IndexByte(head[:n], 0) >= 0, nil
}
