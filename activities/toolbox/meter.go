package toolbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/everturn/everturn/internal/jsonbound"
)

// Bound names a limit on what one connection with a server may do.
type Bound string

// The bounds. A connection that exceeds one is dropped, and its server is quarantined.
const (
	BoundMessages  Bound = "messages_per_second"     // that the server sends, beyond one answer for each request of ours
	BoundRequests  Bound = "requests_per_second"     // of the server: pings, questions; and streams that it makes us reopen
	BoundReplies   Bound = "replies_in_flight"       // answers to its requests that it does not take
	BoundUnsent    Bound = "unsent_bytes"            // of those answers
	BoundBytes     Bound = "bytes_per_second"        // that it sends, beyond one message for each request of ours
	BoundStderr    Bound = "stderr_bytes_per_second" // that its process prints there
	BoundQuestions Bound = "questions_per_call"      // elicitations that it asks for while it holds a call
	BoundBuffered  Bound = "buffered_bytes"          // of unfinished messages of all servers together
	BoundValues    Bound = "values_per_message"      // elements and fields in JSON
	BoundNesting   Bound = "nesting_per_message"     // objects and arrays in each other
	BoundEnvelope  Bound = "envelope_bytes"          // of a message without the content of its params, result or error
	BoundField     Bound = "field_bytes"             // of a line of an event stream that is not data
)

// The limits. Each is an order of magnitude above what the servers of docs/mcp.md do, and costs a worker a few percent
// of a core at most. A rate has a burst: progress and logs come in bursts, and a large result at once.
const (
	messageRate, messageBurst = 200, 5000
	requestRate, requestBurst = 20, 200
	byteRate, byteBurst       = 256 << 10, 64 << 20
	stderrRate, stderrBurst   = 1 << 20, 128 << 20
	maxReplies                = 32
	maxUnsent                 = 4 << 20
	maxValues                 = 1 << 18
	maxNesting                = 1000
	maxQuestions              = maxRounds // as of servers that do not hold their call
	maxEnvelope               = 64 << 10  // the SDK quotes parts of it in errors
	maxField                  = 16 << 10  // and these, too
)

// Excess is a bound that a connection has exceeded. It is the error that ends the connection.
type Excess struct {
	Bound Bound     `json:"bound"`
	Limit int64     `json:"limit"`           // in the bound's unit
	Burst int64     `json:"burst,omitempty"` // of a rate: how much may come at once
	At    time.Time `json:"at"`
}

func (e *Excess) Error() string {
	if e.Burst > 0 {
		return fmt.Sprintf("the worker dropped its connection: it exceeded %s (%d, and %d at once)", e.Bound, e.Limit, e.Burst)
	}
	return fmt.Sprintf("the worker dropped its connection: it exceeded %s (%d)", e.Bound, e.Limit)
}

// bucket is a token bucket. Its owner locks it and brings the clock.
type bucket struct {
	rate, burst, tokens float64
	at                  time.Time
}

func newBucket(rate, burst float64) bucket { return bucket{rate: rate, burst: burst, tokens: burst} }

// take reports whether the bucket had n tokens.
func (b *bucket) take(now time.Time, n int) bool {
	if b.tokens < b.burst {
		b.tokens = min(b.burst, b.tokens+now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
	b.tokens -= float64(n)
	return b.tokens >= 0
}

// give adds tokens for what this program itself has asked for.
func (b *bucket) give(n int) { b.tokens += float64(n) }

// keep takes away the tokens above a burst and n, which is what this program still waits for.
func (b *bucket) keep(n int) { b.tokens = min(b.tokens, b.burst+float64(n)) }

// meter holds one connection to the bounds. It sits below the SDK, which answers each request of a server in a
// goroutine of its own and queues without limit: over stdio at the connection (watchedConn), over HTTP and SSE at the
// requests and their bodies (metered). A nil meter has no bounds.
type meter struct {
	server     string
	total      *totals
	frameBytes int             // the largest message, which each request of ours may bring
	dropped    context.Context // ends, with an *Excess as its cause, when a bound is exceeded
	drop       context.CancelCauseFunc
	large      chan struct{} // holds one while a large message is read

	mu                                sync.Mutex
	open                              map[jsonrpc.ID]context.Context // requests of ours that are not over
	messages, requests, bytes, stderr bucket
	replies, unsent                   int
}

func newMeter(server string, total *totals, frameBytes int) *meter {
	m := &meter{
		server: server, total: total, frameBytes: frameBytes, large: make(chan struct{}, 1), open: map[jsonrpc.ID]context.Context{},
		messages: newBucket(messageRate, messageBurst), requests: newBucket(requestRate, requestBurst),
		bytes: newBucket(byteRate, byteBurst), stderr: newBucket(stderrRate, stderrBurst),
	}
	m.dropped, m.drop = context.WithCancelCause(context.Background())
	return m
}

// onDrop has end called, in a goroutine, when a bound is exceeded.
func (m *meter) onDrop(end func()) { context.AfterFunc(m.dropped, end) }

// excess is the bound that was exceeded first, or nil.
func (m *meter) excess() *Excess {
	var e *Excess
	if m != nil && m.dropped.Err() != nil {
		_ = errors.As(context.Cause(m.dropped), &e) // nothing else is ever the cause
	}
	return e
}

func (m *meter) exceed(b Bound, limit, burst int64) error {
	m.drop(&Excess{Bound: b, Limit: limit, Burst: burst, At: time.Now()}) // the first one counts
	return m.excess()
}

// asked notes a request of ours, which may bring one message until its context ends.
func (m *meter) asked(ctx context.Context, id jsonrpc.ID) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[id] = ctx
	m.messages.give(1)
	m.bytes.give(m.frameBytes)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, id)
		m.messages.keep(len(m.open))
		m.bytes.keep(len(m.open) * m.frameBytes)
	})
}

// message notes a message of the server.
func (m *meter) message() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.messages.take(time.Now(), 1) {
		return m.exceed(BoundMessages, messageRate, messageBurst)
	}
	return nil
}

// request notes something that the server makes this program send.
func (m *meter) request() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.requests.take(time.Now(), 1) {
		return m.exceed(BoundRequests, requestRate, requestBurst)
	}
	return nil
}

// reply notes an answer of n bytes to a request of the server, until sent is called.
func (m *meter) reply(n int) (sent func(), err error) {
	if err := m.request(); err != nil || m == nil {
		return func() {}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replies++
	m.unsent += n
	switch {
	case m.replies > maxReplies:
		err = m.exceed(BoundReplies, maxReplies, 0)
	case m.unsent > maxUnsent:
		err = m.exceed(BoundUnsent, maxUnsent, 0)
	}
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.replies--
		m.unsent -= n
	}), err
}

// printed notes n bytes on stderr.
func (m *meter) printed(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stderr.take(time.Now(), n) {
		_ = m.exceed(BoundStderr, stderrRate, stderrBurst)
	}
}

// questioned notes question number n of a call that the server holds.
func (m *meter) questioned(n int) error {
	if m == nil || n <= maxQuestions {
		return nil
	}
	return m.exceed(BoundQuestions, maxQuestions, 0)
}

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
	msg, err := jsonrpc.DecodeMessage(s.message.Outline)
	if err != nil { // the SDK cannot read it either, or it is a batch
		return fmt.Errorf("%d bytes that it sent are not one message", s.size)
	}
	if answer, ok := msg.(*jsonrpc.Response); ok {
		s.m.room(answer.ID, n)
	}
	return nil
}

// room waits until the worker has room for an answer of n bytes, its request is over, or the connection is dropped. To a
// request that is over the SDK reads no answer.
func (m *meter) room(id jsonrpc.ID, n int64) {
	m.mu.Lock()
	ctx, ok := m.open[id]
	delete(m.open, id)
	m.mu.Unlock()
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(m.dropped, cancel)()
	defer cancel()
	m.total.memory.take(ctx, n)
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

// Bounds for all servers of a worker together. Of the server that buffers most, the connection that buffers most is dropped,
// unless it is below fairBuffered.
const (
	maxBuffered  = 256 << 20 // bytes of unfinished messages
	fairBuffered = 1 << 20
	maxRequests  = 4096 // HTTP requests under way, streams included: each holds a descriptor
	minRequests  = 256
)

// totals are shared by all connections of a Host.
type totals struct {
	mu       sync.Mutex
	memory   memory
	buffered int64
	held     map[*meter]int64 // the same by connection; none is 0
	requests chan struct{}    // holds one for each HTTP request under way
}

// newTotals leaves half of the descriptors that this process may open to everything else.
func newTotals() *totals {
	most := maxRequests
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(limit.Cur)/2 < maxRequests {
		most = max(int(limit.Cur/2), minRequests) //nolint:gosec // it is less than maxRequests
	}
	return &totals{memory: newMemory(), held: map[*meter]int64{}, requests: make(chan struct{}, most)}
}

// add notes that m buffers n bytes more. It returns the connection that is to be dropped for all of them, or nil.
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
		return fmt.Errorf("waiting for one of %d HTTP requests to MCP servers to end: %w", cap(t.requests), context.Cause(ctx))
	}
}

func (t *totals) leave() { <-t.requests }
