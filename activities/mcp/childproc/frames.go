package childproc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// maxNoise is the number of lines other than JSON that a child may print on stdout in its lifetime: enough for a
// banner, not for a log.
const maxNoise = 64

// Errors of Frames. Each ends the stream, because what follows a broken line cannot be trusted.
var (
	ErrFrameTooLong = errors.New("a line on stdout is over the limit")
	ErrFrameBroken  = errors.New("a line on stdout begins like JSON and is not")
	ErrNoise        = errors.New("too many lines on stdout that are not JSON")
)

// Frames reads lines of JSON from a child's stdout and passes on only complete and valid ones, so that its reader never
// waits for the rest of an object. Many servers print a banner on stdout: Frames writes a line that does not begin with
// { or [ to the noise sink and skips it, up to 64 times. A line that begins like JSON but is invalid or too long ends
// the stream with an error.
type Frames struct {
	file  *os.File
	buf   *bufio.Reader
	limit int
	noise io.Writer

	onRead func(read []byte) error // called with each part read from the file; may be nil

	unread  []byte // read but not yet returned by Read
	skipped int
	err     error

	finished atomic.Bool // the child has closed its stdout

	eof       chan struct{} // closed when Read has returned an error
	closeOnce sync.Once     // closes file
	eofOnce   sync.Once     // closes eof
}

// NewFrames returns Frames that read from f. limit is the maximum length of a line in bytes. noise gets the lines that
// are not JSON; it may be nil.
func NewFrames(f *os.File, limit int, noise io.Writer) *Frames {
	if noise == nil {
		noise = io.Discard
	}
	out := &Frames{file: f, limit: limit, noise: noise, eof: make(chan struct{})}
	out.buf = bufio.NewReaderSize((*fileReader)(out), 64<<10)
	return out
}

// fileReader reads the file of a Frames, below the buffer, and shows onRead each part that it reads.
type fileReader Frames

// Read implements io.Reader. It fails if onRead refuses the bytes read.
func (t *fileReader) Read(p []byte) (int, error) {
	n, err := t.file.Read(p)
	if t.onRead != nil && n > 0 {
		if over := t.onRead(p[:n]); over != nil {
			return 0, over
		}
	}
	return n, err
}

// Read implements io.Reader. It may return a part of a line, but only of a line that was read and checked to its end.
// It is not safe for concurrent use.
func (f *Frames) Read(p []byte) (int, error) {
	for len(f.unread) == 0 {
		if f.err == nil {
			f.unread, f.err = f.next()
		}
		if f.err != nil {
			f.eofOnce.Do(func() { close(f.eof) })
			return 0, f.err
		}
	}
	n := copy(p, f.unread)
	f.unread = f.unread[n:]
	return n, nil
}

// next reads the next line. It returns a line of JSON with its newline, or nil for a line that it skips. An error ends
// the stream.
func (f *Frames) next() ([]byte, error) {
	line, err := f.readLine()
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(line)
	switch {
	case len(text) == 0:
		return nil, nil
	case text[0] != '{' && text[0] != '[':
		return nil, f.skip(text)
	case !json.Valid(text):
		return nil, fmt.Errorf("%w: %d bytes beginning with %.80q", ErrFrameBroken, len(text), text)
	}
	return append(text, '\n'), nil
}

// skip writes a line that is not JSON to the noise sink. It fails if there were too many such lines.
func (f *Frames) skip(text []byte) error {
	f.skipped++
	// The noise sink is only for display, so its errors and the rest of a long line do not matter.
	_, _ = f.noise.Write(append(bytes.Clone(text[:min(len(text), 512)]), '\n'))
	if f.skipped > maxNoise {
		return fmt.Errorf("%w: the last begins with %.80q", ErrNoise, text)
	}
	return nil
}

// readLine reads the next line, including its newline, and fails if it is over the limit. At the end, or after Close,
// it also returns a last line without a newline, which next refuses if it is only a part of an object: a child that
// died while it wrote an object must not seem to have ended normally.
func (f *Frames) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := f.buf.ReadSlice('\n')
		if len(line)+len(part) > f.limit {
			return nil, fmt.Errorf("%w of %d bytes", ErrFrameTooLong, f.limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull): // the line is longer than the buffer
			continue
		case errors.Is(err, os.ErrClosed): // by Close
			err = io.EOF
		case errors.Is(err, io.EOF):
			f.finished.Store(true)
		}
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
		return nil, err
	}
}

// Close closes the pipe and unblocks a Read. It is idempotent.
func (f *Frames) Close() error {
	var err error
	f.closeOnce.Do(func() { err = f.file.Close() })
	return err
}

// closeAfter closes the pipe when everything has been read, but at the latest after d. It does not wait longer, because
// a descendant that left the process group may keep the other end open indefinitely.
func (f *Frames) closeAfter(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-f.eof:
	case <-timer.C:
	}
	_ = f.Close()
}
