package inference

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// events reads the JSON objects of a response: the data of server-sent events, or the body itself if the server ignores
// stream=true and sends a single object.
//
// It accepts more than the standard (WHATWG HTML, "Server-sent events"), because providers deviate from it: events need
// no blank line between them, and the last one need not be terminated.
type events struct {
	buffer  *bufio.Reader
	plain   bool // the body is JSON, not an event stream
	started bool // detectKind was called
}

func newEvents(r io.Reader) *events { return &events{buffer: bufio.NewReaderSize(r, 16<<10)} }

// doneMarker is the data of the last event in a stream of Chat Completions.
var doneMarker = []byte("[DONE]")

// errWebPage means that the body is HTML.
var errWebPage = errors.New("the response is a web page")

// next returns the next object. The error is an *overBound if the object exceeds the bounds of one event, errWebPage if
// the body is HTML, and io.EOF at the end of the stream, with or without its end marker.
func (e *events) next() ([]byte, error) {
	if !e.started {
		if err := e.detectKind(); err != nil {
			return nil, err
		}
	}
	if e.plain {
		return e.readObject()
	}
	data, err := e.readEvent()
	if bytes.Equal(data, doneMarker) {
		return nil, io.EOF
	}
	return data, err
}

// detectKind skips white space and a byte order mark at the beginning of the body, and decides by the first other byte
// whether the body is JSON: anything but an object counts as an event stream. It returns errWebPage for HTML.
func (e *events) detectKind() error {
	e.started = true
	for {
		b, err := e.buffer.ReadByte()
		if err != nil {
			return err
		}
		switch b {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // white space and a byte order mark
			continue
		case '<':
			return errWebPage
		}
		if err := e.buffer.UnreadByte(); err != nil {
			return err
		}
		e.plain = b == '{'
		return nil
	}
}

// readObject reads the next object of a body that is not an event stream. It reads byte by byte, because only the
// bounds' scanner knows where an object ends.
func (e *events) readObject() ([]byte, error) {
	var data []byte
	for bounds := (eventBounds{}); !bounds.complete(); {
		b, err := e.buffer.ReadByte()
		switch {
		case err == io.EOF && len(bytes.TrimSpace(data)) > 0: // the body ended within an object
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(data) == maxEventBytes:
			return nil, &overBound{maxEventBytes, "bytes in one event"}
		}
		data = append(data, b)
		if err := bounds.add(data[len(data)-1:]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// readEvent reads one server-sent event and returns its data lines, joined with newlines. It ends the event at a blank
// line, or as soon as the data is a complete object, because some providers send no blank line. It ignores other fields
// and comments. An incomplete event at the end of the stream is lost.
func (e *events) readEvent() ([]byte, error) {
	var data []byte
	var bounds eventBounds
	for lines := 0; ; { // lines counts the data lines of the event
		line, err := e.readLine(maxEventBytes - len(data))
		value, isData := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if isData {
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			value = bytes.TrimSpace(value)
			data = append(data, value...)
			if err := bounds.add(value); err != nil {
				return nil, err
			}
		}
		blank := len(bytes.TrimSpace(line)) == 0
		switch {
		case isData && bounds.complete(), len(data) > 0 && blank && err == nil:
			return data, nil
		case err != nil:
			return nil, err // the stream ended within an event
		}
		if blank { // the end of an event without data
			lines = 0
		}
	}
}

// readLine reads a line with its newline; the last line may have none, and comes with io.EOF. It fails if the line is
// longer than limit bytes.
func (e *events) readLine(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := e.buffer.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return nil, &overBound{maxEventBytes, "bytes in one event"}
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}
