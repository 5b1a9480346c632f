package inference

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// events reads the JSON objects of a response: the data of server-sent events, or, from servers that ignore
// stream=true, the body itself.
//
// It is more tolerant than the standard (WHATWG HTML, "Server-sent events"), because providers are: events need no
// blank line between them, and the last one need not be ended.
type events struct {
	r    *bufio.Reader
	json *json.Decoder // of a body that is no event stream
	any  bool          // something was read
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReaderSize(r, 16<<10)} }

// maxJoin bounds how many data lines of one event are tried as a whole JSON value before the event's end.
const maxJoin = 64

// done is what ends a stream of Chat Completions.
var done = []byte("[DONE]")

// errWebPage: the body is HTML.
var errWebPage = errors.New("the response is a web page")

// next returns the next object. io.EOF is the stream's end, be it marked or not.
func (e *events) next() ([]byte, error) {
	if !e.any {
		if err := e.sniff(); err != nil {
			return nil, err
		}
	}
	if e.json != nil {
		var raw json.RawMessage
		err := e.json.Decode(&raw)
		return raw, err
	}
	data, err := e.read()
	if bytes.Equal(data, done) {
		return nil, io.EOF
	}
	return data, err
}

// sniff looks at the first byte that is no white space.
func (e *events) sniff() error {
	e.any = true
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
		if b == '{' {
			e.json = json.NewDecoder(e.r)
		}
		return nil
	}
}

// read joins the data lines of one event. A line that is a whole JSON value by itself is an event by itself.
func (e *events) read() ([]byte, error) {
	var data []byte
	for lines := 0; ; {
		line, err := e.r.ReadBytes('\n')
		value, isData := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:"))
		if isData {
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimSpace(value)...)
		}
		ended := len(bytes.TrimSpace(line)) == 0
		whole := isData && lines <= maxJoin && (bytes.Equal(data, done) || json.Valid(data))
		switch {
		case whole, len(data) > 0 && ended && err == nil:
			return data, nil
		case err != nil:
			return nil, err // what is left is the half of an event
		}
		if ended {
			lines = 0
		}
	}
}
