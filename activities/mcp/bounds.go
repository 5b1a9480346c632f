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
	Bound Bound
	Limit int64 // in the bound's unit
	Burst int64 // of a rate: how much may come at once
	At    time.Time
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
	rate    float64 // tokens per second
	burst   float64 // the most tokens that time alone adds up to
	tokens  float64
	updated time.Time
}

func newBucket(rate, burst float64) bucket { return bucket{rate: rate, burst: burst, tokens: burst} }

// take removes n tokens and reports whether the bucket had them. If it had not, it now owes them: the count is
// negative.
func (b *bucket) take(now time.Time, n int) bool {
	if b.tokens < b.burst {
		b.tokens = min(b.burst, b.tokens+now.Sub(b.updated).Seconds()*b.rate)
	}
	b.updated = now
	b.tokens -= float64(n)
	return b.tokens >= 0
}

// add adds n tokens for a response that this program has requested. They may exceed the burst.
func (b *bucket) add(n int) { b.tokens += float64(n) }

// capAt removes the tokens above the burst plus n, where n are the tokens for the responses still expected.
func (b *bucket) capAt(n int) { b.tokens = min(b.tokens, b.burst+float64(n)) }

// meter counts the traffic of one connection and drops the connection if it exceeds a bound. It counts below the SDK,
// because the SDK handles each request of a server in a new goroutine and queues without limit: over stdio in
// watchedConn, over HTTP and SSE in headerRoundTripper and meteredBody. A nil meter has no bounds.
type meter struct {
	server     string
	total      *totals
	frameBytes int             // the maximum size of a message; each of our requests allows one such response
	dropped    context.Context // cancelled, with an *Excess as its cause, when a bound is exceeded
	drop       context.CancelCauseFunc
	largeGate  chan struct{} // holds one element while a large message is read

	mu                                sync.Mutex
	pending                           map[jsonrpc.ID]context.Context // the contexts of our requests under way
	messages, requests, bytes, stderr bucket
	replies                           int // responses to the server's requests that are being written
}

// newMeter returns the meter of a new connection to the server with this ID.
func newMeter(server string, total *totals, frameBytes int) *meter {
	m := &meter{
		server: server, total: total, frameBytes: frameBytes, largeGate: make(chan struct{}, 1),
		pending:  map[jsonrpc.ID]context.Context{},
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

// exceed drops the connection because of a bound, and returns the *Excess that ended it: an earlier one, if there was
// one.
func (m *meter) exceed(b Bound, limit, burst int64) error {
	m.drop(&Excess{Bound: b, Limit: limit, Burst: burst, At: time.Now()}) // only the first cause counts
	return m.excess()
}

// requestSent records one of our requests. Until ctx ends, the server may send one message, of at most frameBytes, more
// than its rates allow: the response.
func (m *meter) requestSent(ctx context.Context, id jsonrpc.ID) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending[id] = ctx
	m.messages.add(1)
	m.bytes.add(m.frameBytes)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.pending, id)
		m.messages.capAt(len(m.pending))
		m.bytes.capAt(len(m.pending) * m.frameBytes)
	})
}

// countMessage counts a message from the server. It returns an *Excess if the server sends too many.
func (m *meter) countMessage() error {
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

// countRequest counts a request from the server, or another reason for which this program must send something to it. It
// returns an *Excess if there are too many.
func (m *meter) countRequest() error {
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

// countReply counts a request of the server and the response that this program is writing to it. The caller calls sent
// when the response is written. A server that does not read its responses exceeds maxReplies. sent is never nil.
func (m *meter) countReply() (sent func(), err error) {
	if err := m.countRequest(); err != nil || m == nil {
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

// countStderr counts n bytes that the server's process wrote to stderr.
func (m *meter) countStderr(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stderr.take(time.Now(), n) {
		_ = m.exceed(BoundStderr, stderrRate, stderrBurst)
	}
}

// countElicitation returns an *Excess if n, the number of elicitations that a server has sent while it keeps one call
// open, is too high.
func (m *meter) countElicitation(n int) error {
	if m == nil || n <= maxElicitationsPerCall {
		return nil
	}
	return m.exceed(BoundQuestions, maxElicitationsPerCall, 0)
}

// awaitRoom waits until the worker has memory for a response of n bytes to the request id, and reserves it for that
// request. It also returns when the request's context ends, because the SDK then drops the response, and when the
// connection is dropped.
func (m *meter) awaitRoom(id jsonrpc.ID, n int64) {
	m.mu.Lock()
	ctx, ok := m.pending[id]
	delete(m.pending, id)
	m.mu.Unlock()
	if !ok { // not a response to one of our requests, or a second one
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(m.dropped, cancel)()
	defer cancel()
	m.total.memory.acquire(ctx, n)
}

// admit counts an HTTP request of this connection, and waits until the worker may make one more. It fails if the
// connection is dropped, which exceeding a bound does, or if the request's context ends. The admitted request is
// cancelled when the connection is dropped later. The caller of an admitted request must call release when the response
// is closed, or if there is none.
func (m *meter) admit(req *http.Request) (admitted *http.Request, release func(), err error) {
	if e := m.excess(); e != nil {
		return nil, nil, e
	}
	sent := func() {}
	switch { // a DELETE, which ends the session, counts only towards the worker's requests
	case req.Method == http.MethodGet: // it opens a stream, again if the server has closed the last one
		err = m.countRequest()
	case req.Method == http.MethodPost:
		sent, err = m.countPost(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	unhook := context.AfterFunc(m.dropped, func() { cancel(context.Cause(m.dropped)) })
	if err == nil {
		err = m.total.startRequest(ctx)
	}
	end := func() { unhook(); cancel(context.Canceled); sent() }
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("a request was not sent: %w", err)
	}
	return req.WithContext(ctx), sync.OnceFunc(func() { end(); m.total.endRequest() }), nil
}

// countPost counts the message in the body of a POST: one of our requests, or our response to a request of the server.
// It counts neither a notification nor a body that can be read only once. The caller must call sent when the HTTP
// response ends. sent is never nil.
func (m *meter) countPost(req *http.Request) (sent func(), err error) {
	sent = func() {}
	if req.GetBody == nil { // no body that can be read twice
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
	switch msg, _ := jsonrpc.DecodeMessage(raw); msg := msg.(type) { // nil if the body is not a message
	case *jsonrpc.Response:
		return m.countReply()
	case *jsonrpc.Request:
		if msg.IsCall() {
			m.requestSent(req.Context(), msg.ID)
		}
	}
	return sent, nil
}

// meteredBody is the body of an HTTP response that counts the bytes read from it, and in an event stream the events.
type meteredBody struct {
	io.ReadCloser
	stream  *stream
	release func()
}

// Read implements io.Reader. It counts the bytes that it has read, which may wait until the worker has memory for them.
// If counting fails, for instance because the connection exceeds a bound, it returns that error instead of the bytes.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	countErr := b.count(p[:n])
	if countErr == nil && errors.Is(err, io.EOF) {
		countErr = b.stream.countEOF()
	}
	if countErr != nil {
		return 0, countErr
	}
	return n, err
}

func (b *meteredBody) count(read []byte) error {
	if b.stream.events {
		return b.stream.countLines(read)
	}
	return b.stream.countBody(read)
}

// Close implements io.Closer. It frees what the response occupied, whether or not the body was read to its end.
func (b *meteredBody) Close() error {
	defer b.release()
	defer b.stream.clearUnfinished()
	defer b.stream.releaseLarge()
	return b.ReadCloser.Close()
}
