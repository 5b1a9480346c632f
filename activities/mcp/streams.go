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

// stream counts the bytes and messages that are read from one stream of a connection, before the SDK decodes them: from
// a process's stdout or from the body of an HTTP response. It enforces the bounds of the connection's meter.
type stream struct {
	meter       *meter
	events      bool // an SSE event stream; otherwise a stream of JSON messages
	lineHasText bool // the current line is not empty
	prefix      int  // number of bytes of dataField with which the current line begins; more: another field
	fieldBytes  int  // length of the current line so far, if it is another field
	message     jsonbound.Scanner
	size        int             // bytes of the current message
	ctx         context.Context // of the request whose response this is, or of the connection
	holdsLarge  atomic.Bool     // it holds the meter's largeGate
	unfinished  int64           // bytes since the last whole message; the meter's lock guards it
}

// newStream returns a stream of the meter's connection. Waits for a large message end with ctx.
func newStream(ctx context.Context, m *meter) *stream {
	return &stream{meter: m, ctx: ctx, message: jsonbound.Scanner{MaxOutline: maxEnvelope}}
}

// countBytes counts n bytes against the connection's rate and the worker's memory for unfinished messages. It returns
// an *Excess if the connection is dropped. If all connections together buffer too much, another connection may be the
// one to drop.
func (s *stream) countBytes(n int) error {
	m := s.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	s.unfinished += int64(n)
	if most := m.total.addBuffered(m, int64(n)); most != nil {
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

// dataField begins those lines of an SSE event that contain the message.
const dataField = "data:"

// scan checks a part of a line, or of a body that is one message, against the bounds on messages and fields. It returns
// an *Excess if a bound is exceeded. When more than largeMessage bytes of the message have come, scan waits until no
// other stream of the connection reads such a message, and holds the meter's largeGate from then on. It fails if the
// stream's context ends meanwhile.
func (s *stream) scan(read []byte) error {
	// In an event stream, skip the line's prefix, which may arrive in several parts.
	for ; s.events && s.prefix < len(dataField) && len(read) > 0; read = read[1:] {
		if read[0] != dataField[s.prefix] {
			s.prefix = len(dataField) + 1 // another field
		} else {
			s.prefix++
		}
	}
	if s.events && s.prefix > len(dataField) { // a field such as id or event: only its length counts
		if s.fieldBytes += len(read); s.fieldBytes > maxField {
			return s.meter.exceed(BoundField, maxField, 0)
		}
		return nil
	}
	if s.size += len(read); s.size > largeMessage && !s.holdsLarge.Load() {
		select {
		case s.meter.largeGate <- struct{}{}:
			s.holdsLarge.Store(true)
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
	switch s.message.Add(read, maxNesting, maxValues) {
	case jsonbound.Outline:
		return s.meter.exceed(BoundEnvelope, maxEnvelope, 0)
	case jsonbound.Depth:
		return s.meter.exceed(BoundNesting, maxNesting, 0)
	case jsonbound.Values:
		return s.meter.exceed(BoundValues, maxValues, 0)
	}
	return nil
}

// messageEnded ends the current message: it resets the counts, and then lets another stream of the connection read a
// large message. Before, if the message is a response that is large once decoded, it waits until the worker has memory
// for it or its request has ended. It fails if a large JSON text is not one message of JSON-RPC.
func (s *stream) messageEnded() (err error) {
	decodedBytes := int64(s.size + s.message.Values()*valueBytes) // an estimate
	if decodedBytes > largeMessage {
		err = s.awaitRoom(decodedBytes)
	}
	s.message.Reset()
	s.size = 0
	s.releaseLarge()
	return err
}

// awaitRoom waits until the worker has memory for n bytes, if the complete message is a response to one of our
// requests. The wait also ends with that request or with the connection: see meter.awaitRoom. Other messages do not
// wait, because rates bound them. awaitRoom fails if text that begins like JSON is not one JSON-RPC message.
func (s *stream) awaitRoom(n int64) error {
	text := bytes.TrimSpace(s.message.Outline)              // the message without nested content, but with its ID
	if len(text) == 0 || text[0] != '{' && text[0] != '[' { // not JSON: over stdio it is skipped
		return nil
	}
	msg, err := jsonrpc.DecodeMessage(text)
	if err != nil { // the SDK cannot read it either, or it is a batch
		return fmt.Errorf("%d bytes that it sent are not one message", s.size)
	}
	if answer, ok := msg.(*jsonrpc.Response); ok {
		s.meter.awaitRoom(answer.ID, n)
	}
	return nil
}

// releaseLarge lets another stream of the connection read a large message, if this stream was reading one.
func (s *stream) releaseLarge() {
	if s.holdsLarge.CompareAndSwap(true, false) {
		<-s.meter.largeGate
	}
}

// countBody counts a part of a body that is a single message.
func (s *stream) countBody(read []byte) error {
	if err := s.countBytes(len(read)); err != nil {
		return err
	}
	return s.scan(read)
}

// countLines counts a part of a stream of lines: of an SSE stream, in which an empty line ends each event, or of stdio,
// in which each line is a message. An empty line counts as a message against the rate: in SSE it ends one, and over
// stdio the SDK does not see it, so that nothing else would count it.
func (s *stream) countLines(read []byte) error {
	if err := s.countBytes(len(read)); err != nil {
		return err
	}
	for {
		line, rest, ended := bytes.Cut(read, []byte{'\n'})
		s.lineHasText = s.lineHasText || len(bytes.Trim(line, "\r")) > 0
		if err := s.scan(line); err != nil {
			return err
		}
		if !ended {
			return nil
		}
		if !s.events || !s.lineHasText { // the line ends a message
			if err := s.messageEnded(); err != nil {
				return err
			}
		}
		if !s.lineHasText {
			s.clearUnfinished()
			if err := s.meter.countMessage(); err != nil {
				return err
			}
		}
		s.lineHasText, s.prefix, s.fieldBytes, read = false, 0, 0, rest
	}
}

// countEOF records the end of the stream. It ends the current message, unless that is empty.
func (s *stream) countEOF() error {
	if s.size == 0 {
		return nil
	}
	if err := s.messageEnded(); err != nil {
		return err
	}
	s.clearUnfinished()
	return s.meter.countMessage()
}

// clearUnfinished releases the memory that is counted for unfinished messages: the message is complete, or nothing more
// is read from the stream.
func (s *stream) clearUnfinished() {
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	s.meter.total.addBuffered(s.meter, -s.unfinished)
	s.unfinished = 0
}

// Bounds on large messages, in bytes. A result is copied several times between its message and the journal: it is
// decoded, sanitized, redacted, cut and encoded again. A decoded value takes more memory than its text.
const (
	valueBytes   = 256       // an estimate of the memory that one decoded value takes beyond its text
	largeMessage = 256 << 10 // a connection reads one message above this size at a time
	maxLarge     = 32 << 20  // large responses being processed, of all servers of the worker together
)

// memory bounds the memory that large responses take in the worker.
type memory struct{ free *semaphore.Weighted }

func newMemory() memory { return memory{semaphore.NewWeighted(maxLarge)} }

// acquire waits until n bytes are free and assigns them to the reservation in ctx. If ctx ends first, it acquires
// nothing, because the SDK then drops the response.
func (m memory) acquire(ctx context.Context, n int64) {
	s, _ := ctx.Value(reservationKey{}).(*reservation)
	if s == nil { // only calls and lists have one; initialize, for instance, has none
		return
	}
	s.set(nil) // a request must hold nothing while it waits, or two requests might block each other
	n = min(n, maxLarge)
	if m.free.Acquire(ctx, n) == nil {
		s.set(func() { m.free.Release(n) })
	}
}

// reservation is the memory that the response to one of our requests takes in the worker. The zero value takes none.
type reservation struct {
	mu       sync.Mutex
	free     func() // frees the memory; nil: it takes none
	released bool   // the response is no longer being processed, so the reservation must stay empty
}

type reservationKey struct{}

// withReservation returns a context for one of our requests, whose response then takes its memory through s.
func withReservation(ctx context.Context, s *reservation) context.Context {
	return context.WithValue(ctx, reservationKey{}, s)
}

// set frees the reservation's memory and replaces it with memory that free frees; nil for none. It frees that at once
// if the reservation was released meanwhile.
func (s *reservation) set(free func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free != nil {
		s.free()
	}
	if s.free = free; s.released && free != nil {
		free()
		s.free = nil
	}
}

// release frees the reservation's memory, and any that a late response would still acquire.
func (s *reservation) release() {
	s.mu.Lock()
	s.released = true
	s.mu.Unlock()
	s.set(nil)
}

// releaseAfter calls release when kept is closed, or immediately if kept is nil or there is nothing to free.
func (s *reservation) releaseAfter(kept <-chan struct{}) {
	s.mu.Lock()
	wait := s.free != nil && kept != nil
	s.mu.Unlock()
	if !wait {
		s.release()
		return
	}
	go func() {
		<-kept
		s.release()
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
	mu         sync.Mutex
	memory     memory
	buffered   int64
	bufferedBy map[*meter]int64 // buffered, by connection; entries of 0 are deleted
	requests   chan struct{}    // holds one element for each HTTP request under way
}

// newTotals returns the totals of a new Host. It limits HTTP requests to half of the file descriptors that this process
// may open, so that the other half is left for everything else, but at least to minRequests and at most to maxRequests.
func newTotals() *totals {
	most := maxRequests
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(limit.Cur)/2 < maxRequests {
		most = max(int(limit.Cur/2), minRequests) //nolint:gosec // no overflow: it is less than maxRequests
	}
	return &totals{memory: newMemory(), bufferedBy: map[*meter]int64{}, requests: make(chan struct{}, most)}
}

// addBuffered records that the connection m buffers n more bytes of unfinished messages; n may be negative. If all
// connections together then exceed maxBuffered, it returns the connection to drop: the largest connection of the server
// whose connections buffer most, unless that buffers at most fairBuffered. Otherwise it returns nil.
func (t *totals) addBuffered(m *meter, n int64) *meter {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buffered += n
	if t.bufferedBy[m] += n; t.bufferedBy[m] == 0 {
		delete(t.bufferedBy, m)
	}
	if n <= 0 || t.buffered <= maxBuffered {
		return nil
	}
	servers := map[string]int64{}
	for other, held := range t.bufferedBy {
		servers[other.server] += held
	}
	most := m
	for other, held := range t.bufferedBy {
		if a, b := servers[other.server], servers[most.server]; a > b || a == b && held > t.bufferedBy[most] {
			most = other
		}
	}
	if t.bufferedBy[most] <= fairBuffered {
		return nil
	}
	return most
}

// startRequest waits until one more HTTP request may be made. The caller must call endRequest when the request is over.
func (t *totals) startRequest(ctx context.Context) error {
	select {
	case t.requests <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for one of %d HTTP requests to MCP servers to end: %w", cap(t.requests),
			context.Cause(ctx))
	}
}

func (t *totals) endRequest() { <-t.requests }
