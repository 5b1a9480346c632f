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

// Frames reads lines of JSON from a child's stdout. Many servers print a banner there: Frames writes a line that does
// not begin with { or [ to the noise sink and skips it, up to 64 times. A line that begins like JSON but is
// invalid or too long ends the stream with an error, so a reader behind Frames never waits for the rest of half an
// object.
type Frames struct {
	file  *os.File
	buf   *bufio.Reader
	limit int
	noise io.Writer

	onRead func(read []byte) error // called with each part read from the file; may be nil

	line    []byte // read but not yet returned by Read
	skipped int
	err     error

	finished atomic.Bool // the child has closed its stdout

	eof  chan struct{}
	once sync.Once // closes file
	ends sync.Once // closes eof
}

// NewFrames reads from f. limit is the maximum length of a line in bytes. noise may be nil.
func NewFrames(f *os.File, limit int, noise io.Writer) *Frames {
	if noise == nil {
		noise = io.Discard
	}
	out := &Frames{file: f, limit: limit, noise: noise, eof: make(chan struct{})}
	out.buf = bufio.NewReaderSize((*told)(out), 64<<10)
	return out
}

// told is the reader of a Frames' file. It passes what it reads to onRead.
type told Frames

func (t *told) Read(p []byte) (int, error) {
	n, err := t.file.Read(p)
	if t.onRead != nil && n > 0 {
		if over := t.onRead(p[:n]); over != nil {
			return 0, over
		}
	}
	return n, err
}

// Read implements io.Reader. It is not safe for concurrent use.
func (f *Frames) Read(p []byte) (int, error) {
	for len(f.line) == 0 {
		if f.err == nil {
			f.line, f.err = f.next()
		}
		if f.err != nil {
			f.ends.Do(func() { close(f.eof) })
			return 0, f.err
		}
	}
	n := copy(p, f.line)
	f.line = f.line[n:]
	return n, nil
}

// next returns the next line of JSON with its newline, or nil for a line to skip.
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

func (f *Frames) skip(text []byte) error {
	f.skipped++
	// the noise sink is for display and never fails
	_, _ = f.noise.Write(append(bytes.Clone(text[:min(len(text), 512)]), '\n'))
	if f.skipped > maxNoise {
		return fmt.Errorf("%w: the last begins with %.80q", ErrNoise, text)
	}
	return nil
}

// readLine reads up to a newline. It also returns a last line without one, so that a child that dies in the middle of
// an object can be told from one that exits between objects.
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
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, os.ErrClosed):
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
	f.once.Do(func() { err = f.file.Close() })
	return err
}

// closeAfter closes the pipe when everything has been read, or after d: a descendant that left the group may keep the
// other end open indefinitely.
func (f *Frames) closeAfter(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-f.eof:
	case <-timer.C:
	}
	_ = f.Close()
}
