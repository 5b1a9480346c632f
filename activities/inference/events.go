package inference

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// events reads the JSON objects of a response: the data of server-sent events, or the body itself if the server ignores
// stream=true.
//
// It is more tolerant than the standard (WHATWG HTML, "Server-sent events"), because providers deviate from it: events
// need no blank line between them, and the last one need not be terminated.
type events struct {
	r       *bufio.Reader
	plain   bool // the body is not an event stream
	started bool // something has been read
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 16<<10)} }

// done ends a stream of Chat Completions.
var done = []byte("[DONE]")

// errWebPage means that the body is HTML.
var errWebPage = errors.New("the response is a web page")

// next returns the next object. The error is an *overBound if the object exceeds the bounds of one event, and io.EOF at
// the end of the stream, with or without its end marker.
func (e *events) next() ([]byte, error) {
	if !e.started {
		if err := e.sniff(); err != nil {
			return nil, err
		}
	}
	if e.plain {
		return e.value()
	}
	data, err := e.read()
	if bytes.Equal(data, done) {
		return nil, io.EOF
	}
	return data, err
}

// sniff looks at the first byte that is not white space.
func (e *events) sniff() error {
	e.started = true
	for {
		b, err := e.r.ReadByte()
		if err != nil {
			return err
		}
		switch b {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // white space and a byte order mark
			continue
		case '<':
			return errWebPage
		}
		if err := e.r.UnreadByte(); err != nil {
			return err
		}
		e.plain = b == '{'
		return nil
	}
}

// value reads one object of a body that is not an event stream.
func (e *events) value() ([]byte, error) {
	var data []byte
	for eb := (eventBounds{}); !eb.complete(); {
		b, err := e.r.ReadByte()
		switch {
		case err == io.EOF && len(bytes.TrimSpace(data)) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(data) == maxEventBytes:
			return nil, &overBound{maxEventBytes, "bytes in one event"}
		}
		data = append(data, b)
		if err := eb.add(data[len(data)-1:]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// read joins the data lines of one event. A line that is a whole object is an event by itself.
func (e *events) read() ([]byte, error) {
	var data []byte
	var b eventBounds
	for lines := 0; ; {
		line, err := e.line(maxEventBytes - len(data))
		value, isData := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if isData {
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			value = bytes.TrimSpace(value)
			data = append(data, value...)
			if err := b.add(value); err != nil {
				return nil, err
			}
		}
		ended := len(bytes.TrimSpace(line)) == 0
		switch {
		case isData && b.complete(), len(data) > 0 && ended && err == nil:
			return data, nil
		case err != nil:
			return nil, err // the rest is an incomplete event
		}
		if ended {
			lines = 0
		}
	}
}

// line reads up to the end of a line, or returns an error after limit bytes.
func (e *events) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := e.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return nil, &overBound{maxEventBytes, "bytes in one event"}
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}
