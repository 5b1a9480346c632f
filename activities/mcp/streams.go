package mcp

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/sync/semaphore"

	"github.com/everturn/everturn/internal/jsonbound"
)

// stream counts what is read of one stream of a connection.
type stream struct {
	m          *meter
	events     bool // an SSE event stream; otherwise a stream of messages
	inLine     bool // the line so far is not empty
	field      int  // how many bytes of dataField the event's line begins with so far
	other      int  // bytes of that line if it is another field
	message    jsonbound.Scanner
	size       int             // of the message so far
	ctx        context.Context // of the request that the stream answers, or of the connection
	large      atomic.Bool     // it holds the meter's place for a large message
	unfinished int64           // bytes since the last whole message; the meter's lock guards it
}

func newStream(ctx context.Context, m *meter) *stream {
	return &stream{m: m, ctx: ctx, message: jsonbound.Scanner{MaxOutline: maxEnvelope}}
}

// bytes records n bytes.
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

// dataField begins each line of an event that contains a part of a message.
const dataField = "data:"

// part records a part of a line, or of a message without lines, before it is decoded.
func (s *stream) part(read []byte) error {
	for ; s.events && s.field < len(dataField) && len(read) > 0; read = read[1:] {
		if read[0] != dataField[s.field] {
			s.field = len(dataField) + 1
		} else {
			s.field++
		}
	}
	if s.events && s.field > len(dataField) { // another field
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

// ended records that the message is complete. It returns when the worker has room for a large response.
func (s *stream) ended() (err error) {
	if n := int64(s.size + s.message.Values()*valueBytes); n > largeMessage {
		err = s.room(n)
	}
	s.message.Reset()
	s.size = 0
	s.next()
	return err
}

// room waits until the worker has room for n bytes, if the complete message is a response. Messages that a server sends
// unasked are bounded by their rates.
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

// body records what was read of a body that is one message.
func (s *stream) body(read []byte) error {
	if err := s.bytes(len(read)); err != nil {
		return err
	}
	return s.part(read)
}

// lines records what was read of a stream of lines. Each empty line counts as a message: in SSE it ends an event; over
// stdio it is not a message, but must be read.
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

// eof records the end of the stream, which ends a message that is not empty.
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

// whole records that the bytes so far were a message, or that nothing more is read.
func (s *stream) whole() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.total.add(s.m, -s.unfinished)
	s.unfinished = 0
}

// Bounds on large messages, in bytes. A result is copied several times between its message and the journal: it is
// decoded, sanitized, redacted, cut and encoded again. A decoded value takes more memory than its text.
const (
	valueBytes   = 256
	largeMessage = 256 << 10 // a connection reads one message above this size at a time
	maxLarge     = 32 << 20  // of large responses being processed, for all servers of the worker together
)

// memory bounds the memory that large responses take in the worker.
type memory struct{ free *semaphore.Weighted }

func newMemory() memory { return memory{semaphore.NewWeighted(maxLarge)} }

// take waits until there is room for n bytes and charges them to the share in ctx. It gives up when ctx ends, because
// the SDK then drops the response.
func (m memory) take(ctx context.Context, n int64) {
	s, _ := ctx.Value(shareKey{}).(*share)
	if s == nil { // a handshake has no share
		return
	}
	s.put(nil) // a request that waits for room holds none
	n = min(n, maxLarge)
	if m.free.Acquire(ctx, n) == nil {
		s.put(func() { m.free.Release(n) })
	}
}

// share is the room that the response to one of our requests takes. The zero value takes none.
type share struct {
	mu   sync.Mutex
	free func() // nil: it takes none
	over bool   // the response is no longer being processed
}

type shareKey struct{}

func withShare(ctx context.Context, s *share) context.Context {
	return context.WithValue(ctx, shareKey{}, s)
}

// put replaces the room that the share takes.
func (s *share) put(free func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free != nil {
		s.free()
	}
	if s.free = free; s.over && free != nil {
		free()
		s.free = nil
	}
}

// end frees the share's room for good.
func (s *share) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.put(nil)
}

// endAfter calls end when kept is closed, or immediately if kept is nil or there is nothing to free.
func (s *share) endAfter(kept <-chan struct{}) {
	s.mu.Lock()
	wait := s.free != nil && kept != nil
	s.mu.Unlock()
	if !wait {
		s.end()
		return
	}
	go func() {
		<-kept
		s.end()
	}()
}

// Bounds for all servers of a worker together. Above maxBuffered, the worker drops the largest connection of the server
// that buffers most, unless that connection is below fairBuffered.
const (
	maxBuffered  = 256 << 20 // bytes of unfinished messages
	fairBuffered = 1 << 20
	maxRequests  = 4096 // HTTP requests under way, streams included: each holds a file descriptor
	minRequests  = 256
)

// totals are shared by all connections of a Host.
type totals struct {
	mu       sync.Mutex
	memory   memory
	buffered int64
	held     map[*meter]int64 // buffered, by connection; entries of 0 are deleted
	requests chan struct{}    // holds one element for each HTTP request under way
}

// newTotals leaves half of the file descriptors that this process may open to everything else.
func newTotals() *totals {
	most := maxRequests
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(limit.Cur)/2 < maxRequests {
		most = max(int(limit.Cur/2), minRequests) //nolint:gosec // it is less than maxRequests
	}
	return &totals{memory: newMemory(), held: map[*meter]int64{}, requests: make(chan struct{}, most)}
}

// add records that m buffers n more bytes. It returns the connection to drop if all connections together exceed the
// bound, or nil.
func (t *totals) add(m *meter, n int64) *meter {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buffered += n
	if t.held[m] += n; t.held[m] == 0 {
		delete(t.held, m)
	}
	if n <= 0 || t.buffered <= maxBuffered {
		return nil
	}
	servers := map[string]int64{}
	for other, held := range t.held {
		servers[other.server] += held
	}
	most := m
	for other, held := range t.held {
		if a, b := servers[other.server], servers[most.server]; a > b || a == b && held > t.held[most] {
			most = other
		}
	}
	if t.held[most] <= fairBuffered {
		return nil
	}
	return most
}

// enter waits until one more HTTP request may be made.
func (t *totals) enter(ctx context.Context) error {
	select {
	case t.requests <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for one of %d HTTP requests to MCP servers to end: %w", cap(t.requests),
			context.Cause(ctx))
	}
}

func (t *totals) leave() { <-t.requests }
