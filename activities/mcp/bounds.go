package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Bound names a limit on what one connection with a server may do.
type Bound string

// The bounds. A connection that exceeds one is dropped, and the worker backs off from its server.
const (
	// messages from the server, beyond one response to each of our requests
	BoundMessages Bound = "messages_per_second"
	// the server's requests, such as pings and elicitations, and reopened streams
	BoundRequests  Bound = "requests_per_second"
	BoundReplies   Bound = "replies_in_flight"       // responses to its requests that it does not read
	BoundBytes     Bound = "bytes_per_second"        // bytes from the server, beyond one message for each of our requests
	BoundStderr    Bound = "stderr_bytes_per_second" // printed by its process
	BoundQuestions Bound = "questions_per_call"      // elicitations while it holds a call
	BoundBuffered  Bound = "buffered_bytes"          // of unfinished messages of all servers together
	BoundValues    Bound = "values_per_message"      // elements and fields in JSON
	BoundNesting   Bound = "nesting_per_message"     // depth of nested objects and arrays
	BoundEnvelope  Bound = "envelope_bytes"          // of a message without the content of its params, result or error
	BoundField     Bound = "field_bytes"             // of a line of an event stream that is not data
)

// The limits. Each is an order of magnitude above what the servers of docs/mcp.md need, and costs a worker a few
// percent of a core at most. A rate has a burst, because progress and logs arrive in bursts, and a large result at
// once.
const (
	messageRate, messageBurst = 200, 5000
	requestRate, requestBurst = 20, 200
	byteRate, byteBurst       = 256 << 10, 64 << 20
	stderrRate, stderrBurst   = 1 << 20, 128 << 20
	maxReplies                = 32
	maxValues                 = 1 << 18
	maxNesting                = 1000
	maxElicitationsPerCall    = maxRounds // the same as for servers that do not hold their call
	maxEnvelope               = 64 << 10  // the SDK quotes parts of the envelope in errors
	maxField                  = 16 << 10  // the SDK quotes fields in errors, too
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
		return fmt.Sprintf("the worker dropped its connection: it exceeded %s (%d, and %d at once)", e.Bound, e.Limit,
			e.Burst)
	}
	return fmt.Sprintf("the worker dropped its connection: it exceeded %s (%d)", e.Bound, e.Limit)
}

// bucket is a token bucket. Its owner locks it and supplies the time.
type bucket struct {
	rate, burst, tokens float64
	at                  time.Time
}

func newBucket(rate, burst float64) bucket { return bucket{rate: rate, burst: burst, tokens: burst} }

// take removes n tokens and reports whether the bucket had them.
func (b *bucket) take(now time.Time, n int) bool {
	if b.tokens < b.burst {
		b.tokens = min(b.burst, b.tokens+now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
	b.tokens -= float64(n)
	return b.tokens >= 0
}

// give adds n tokens for a response that this program has requested.
func (b *bucket) give(n int) { b.tokens += float64(n) }

// keep drops the tokens above the burst and n, the tokens for responses still expected.
func (b *bucket) keep(n int) { b.tokens = min(b.tokens, b.burst+float64(n)) }

// meter holds one connection to the bounds. It sits below the SDK, which handles each request of a server in a
// goroutine of its own and queues without limit: over stdio at the connection (watchedConn), over HTTP and SSE at the
// requests and their bodies (metered). A nil meter has no bounds.
type meter struct {
	server     string
	total      *totals
	frameBytes int             // the largest message, which may come for each of our requests
	dropped    context.Context // cancelled, with an *Excess as its cause, when a bound is exceeded
	drop       context.CancelCauseFunc
	large      chan struct{} // holds one element while a large message is read

	mu                                sync.Mutex
	open                              map[jsonrpc.ID]context.Context // our requests that are not over
	messages, requests, bytes, stderr bucket
	replies                           int
}

func newMeter(server string, total *totals, frameBytes int) *meter {
	m := &meter{
		server: server, total: total, frameBytes: frameBytes, large: make(chan struct{}, 1),
		open:     map[jsonrpc.ID]context.Context{},
		messages: newBucket(messageRate, messageBurst), requests: newBucket(requestRate, requestBurst),
		bytes: newBucket(byteRate, byteBurst), stderr: newBucket(stderrRate, stderrBurst),
	}
	m.dropped, m.drop = context.WithCancelCause(context.Background())
	return m
}

// onDrop calls end in a goroutine when a bound is exceeded.
func (m *meter) onDrop(end func()) { context.AfterFunc(m.dropped, end) }

// excess returns the bound that was exceeded first, or nil.
func (m *meter) excess() *Excess {
	var e *Excess
	if m != nil && m.dropped.Err() != nil {
		_ = errors.As(context.Cause(m.dropped), &e) // the cause is always an *Excess
	}
	return e
}

func (m *meter) exceed(b Bound, limit, burst int64) error {
	m.drop(&Excess{Bound: b, Limit: limit, Burst: burst, At: time.Now()}) // only the first cause counts
	return m.excess()
}

// asked records one of our requests. It allows one more message until ctx ends.
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

// message records a message of the server.
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

// request records something that the server makes this program send.
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

// reply records a response to a request of the server, until sent is called.
func (m *meter) reply() (sent func(), err error) {
	if err := m.request(); err != nil || m == nil {
		return func() {}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replies++
	if m.replies > maxReplies {
		err = m.exceed(BoundReplies, maxReplies, 0)
	}
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.replies--
	}), err
}

// printed records n bytes on stderr.
func (m *meter) printed(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stderr.take(time.Now(), n) {
		_ = m.exceed(BoundStderr, stderrRate, stderrBurst)
	}
}

// elicited records elicitation number n of a call that the server holds.
func (m *meter) elicited(n int) error {
	if m == nil || n <= maxElicitationsPerCall {
		return nil
	}
	return m.exceed(BoundQuestions, maxElicitationsPerCall, 0)
}

// room waits until the worker has room for a response of n bytes, its request is over, or the connection is dropped.
// The SDK does not read a response to a request that is over.
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

// admit lets a request of this connection pass, unless it exceeds a bound. The returned request is cancelled when the
// connection is dropped. The caller must call release when the response ends.
func (m *meter) admit(req *http.Request) (admitted *http.Request, release func(), err error) {
	if e := m.excess(); e != nil {
		return nil, nil, e
	}
	sent := func() {}
	switch {
	case req.Method == http.MethodGet:
		err = m.request()
	case req.Method == http.MethodPost:
		sent, err = m.posted(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	unhook := context.AfterFunc(m.dropped, func() { cancel(context.Cause(m.dropped)) })
	if err == nil {
		err = m.total.enter(ctx)
	}
	end := func() { unhook(); cancel(context.Canceled); sent() }
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("a request was not sent: %w", err)
	}
	return req.WithContext(ctx), sync.OnceFunc(func() { end(); m.total.leave() }), nil
}

// posted records the message that a request carries. The caller must call sent when the response ends.
func (m *meter) posted(req *http.Request) (sent func(), err error) {
	sent = func() {}
	if req.GetBody == nil {
		return sent, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return sent, err
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	if err != nil {
		return sent, err
	}
	switch msg, _ := jsonrpc.DecodeMessage(raw); msg := msg.(type) { // nil: not a message
	case *jsonrpc.Response:
		return m.reply()
	case *jsonrpc.Request:
		if msg.IsCall() {
			m.asked(req.Context(), msg.ID)
		}
	}
	return sent, nil
}

// meteredBody counts what is read of a response. In an event stream it counts the events, too.
type meteredBody struct {
	io.ReadCloser
	stream  *stream
	release func()
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	over := b.count(p[:n])
	if over == nil && errors.Is(err, io.EOF) {
		over = b.stream.eof()
	}
	if over != nil {
		return 0, over
	}
	return n, err
}

func (b *meteredBody) count(read []byte) error {
	if b.stream.events {
		return b.stream.lines(read)
	}
	return b.stream.body(read)
}

func (b *meteredBody) Close() error {
	defer b.release()
	defer b.stream.whole()
	defer b.stream.next()
	return b.ReadCloser.Close()
}
