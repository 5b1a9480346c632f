package toolbox

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/everturn/everturn/internal/jsonbound"
)

// stream counts what is read of one stream of a connection.
type stream struct {
	m          *meter
	events     bool // it is a stream of events of SSE, and otherwise one of messages
	inLine     bool // the line so far is not empty
	field      int  // of the line of an event: how many bytes of dataField it begins with so far
	other      int  // bytes of that line if it is another field
	message    jsonbound.Scanner
	size       int             // of the message so far
	ctx        context.Context // of the request whose answer it is, or of the connection
	large      atomic.Bool     // it holds the meter's place for a large message
	unfinished int64           // bytes since the last whole message; the meter's lock guards it
}

func newStream(ctx context.Context, m *meter) *stream {
	return &stream{m: m, ctx: ctx, message: jsonbound.Scanner{MaxOutline: maxEnvelope}}
}

// bytes notes n bytes.
func (s *stream) bytes(n int) error {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	s.unfinished += int64(n)
	if most := m.total.add(m, int64(n)); most != nil {
		_ = most.exceed(BoundBuffered, maxBuffered, 0)
	}
	if !m.bytes.take(time.Now(), n) {
		return m.exceed(BoundBytes, byteRate, byteBurst)
	}
	if e := m.excess(); e != nil {
		return e
	}
	return nil
}

// dataField begins each line of an event that holds a part of a message.
const dataField = "data:"

// part notes a part of a line, or of a message without lines, before it is decoded.
func (s *stream) part(read []byte) error {
	for ; s.events && s.field < len(dataField) && len(read) > 0; read = read[1:] {
		if read[0] != dataField[s.field] {
			s.field = len(dataField) + 1
		} else {
			s.field++
		}
	}
	if s.events && s.field > len(dataField) { // of another field
		if s.other += len(read); s.other > maxField {
			return s.m.exceed(BoundField, maxField, 0)
		}
		return nil
	}
	if s.size += len(read); s.size > largeMessage && !s.large.Load() {
		select {
		case s.m.large <- struct{}{}:
			s.large.Store(true)
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	switch s.message.Add(read, maxNesting, maxValues) {
	case jsonbound.Outline:
		return s.m.exceed(BoundEnvelope, maxEnvelope, 0)
	case jsonbound.Depth:
		return s.m.exceed(BoundNesting, maxNesting, 0)
	case jsonbound.Values:
		return s.m.exceed(BoundValues, maxValues, 0)
	}
	return nil
}

// ended notes that the message is whole. It returns when the worker has room for a large answer.
func (s *stream) ended() (err error) {
	if n := int64(s.size + s.message.Values()*valueBytes); n > largeMessage {
		err = s.room(n)
	}
	s.message.Reset()
	s.size = 0
	s.next()
	return err
}

// room waits until the worker has room for n bytes, if the message that is whole is an answer. What a server sends
// unasked has its rates.
func (s *stream) room(n int64) error {
	text := bytes.TrimSpace(s.message.Outline)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' { // not JSON: over stdio it is skipped
		return nil
	}
	msg, err := jsonrpc.DecodeMessage(text)
	if err != nil { // the SDK cannot read it either, or it is a batch
		return fmt.Errorf("%d bytes that it sent are not one message", s.size)
	}
	if answer, ok := msg.(*jsonrpc.Response); ok {
		s.m.room(answer.ID, n)
	}
	return nil
}

// next lets another stream of the connection read a large message.
func (s *stream) next() {
	if s.large.CompareAndSwap(true, false) {
		<-s.m.large
	}
}

// body notes what was read of a body that is one message.
func (s *stream) body(read []byte) error {
	if err := s.bytes(len(read)); err != nil {
		return err
	}
	return s.part(read)
}

// lines notes what was read of a stream of lines. Each empty line counts as a message: it ends an event of SSE, and
// over stdio it is none, but has to be read.
func (s *stream) lines(read []byte) error {
	if err := s.bytes(len(read)); err != nil {
		return err
	}
	for {
		line, rest, ended := bytes.Cut(read, []byte{'\n'})
		s.inLine = s.inLine || len(bytes.Trim(line, "\r")) > 0
		if err := s.part(line); err != nil {
			return err
		}
		if !ended {
			return nil
		}
		if !s.events || !s.inLine {
			if err := s.ended(); err != nil {
				return err
			}
		}
		if !s.inLine {
			s.whole()
			if err := s.m.message(); err != nil {
				return err
			}
		}
		s.inLine, s.field, s.other, read = false, 0, 0, rest
	}
}

// eof notes the end of the stream, which ends a message that is not empty.
func (s *stream) eof() error {
	if s.size == 0 {
		return nil
	}
	if err := s.ended(); err != nil {
		return err
	}
	s.whole()
	return s.m.message()
}

// whole notes that the bytes so far were a message, or that no more is read.
func (s *stream) whole() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.total.add(s.m, -s.unfinished)
	s.unfinished = 0
}
