package mcp

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// callState records what the transport observes of one call: whether it was sent, refused or answered. It travels in
// the context of the call's request, so that the transport, below the SDK, can find it.
type callState struct {
	phase       atomic.Int32
	refused     atomic.Pointer[refusal] // how the server's HTTP front refused the call unread; nil: it did not
	answered    chan struct{}           // closed when a response to the call was read; over stdio only
	once        sync.Once               // closes answered
	reservation reservation
}

// The phases of a call. A call that was abandoned before it was sent can no longer be sent.
const (
	phaseUnsent = iota
	phaseSent   // a byte of the call may have reached the server
	phaseAbandoned
)

// beginSend records that the call is about to be sent. allowed is false if the call was abandoned, and must not be sent
// any more. first is true for exactly one of several senders, such as the repetitions of an HTTP request; only that one
// may call unsend.
func (s *callState) beginSend() (allowed, first bool) {
	first = s.phase.CompareAndSwap(phaseUnsent, phaseSent)
	return s.phase.Load() == phaseSent, first
}

// unsend undoes beginSend, because not a byte was written.
func (s *callState) unsend() { s.phase.CompareAndSwap(phaseSent, phaseUnsent) }

// abandon reports whether the call was sent, or may have been. If it was not, abandon prevents that it is sent later,
// so that the answer stays true.
func (s *callState) abandon() (sent bool) {
	s.phase.CompareAndSwap(phaseUnsent, phaseAbandoned)
	return s.phase.Load() == phaseSent
}

type callStateKey struct{}

// newCallState returns the state of a new call, and the context for the call's request, which carries the state.
func newCallState(ctx context.Context) (context.Context, *callState) {
	state := &callState{answered: make(chan struct{})}
	return withReservation(context.WithValue(ctx, callStateKey{}, state), &state.reservation), state
}

// callStateOf returns the state of the call whose request has this context; nil for a request that is no call.
func callStateOf(ctx context.Context) *callState {
	state, _ := ctx.Value(callStateKey{}).(*callState)
	return state
}

func (s *callState) markAnswered() { s.once.Do(func() { close(s.answered) }) }

// watchedTransport observes the messages of a stdio connection. It records which calls were written, which were
// answered (even after the SDK has stopped waiting for the response), and the error that ended the connection, which
// the SDK's errors do not contain.
type watchedTransport struct {
	inner    sdk.Transport
	written  func() int64 // returns how many bytes were written; nil: unknown
	meter    *meter       // nil: the connection has no bounds
	incoming *stream      // counts what the server sends

	mu      sync.Mutex
	pending map[jsonrpc.ID]*callState // calls without a response, by the ID of their request
	readErr error                     // the first error of Read
}

// Connect implements sdk.Transport. It returns a connection that reports its messages to t.
func (t *watchedTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.pending = map[jsonrpc.ID]*callState{}
	return &watchedConn{Connection: conn, transport: t}, nil
}

// readError returns the error that ended the connection; nil while it is open, and for a nil t.
func (t *watchedTransport) readError() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readErr
}

type watchedConn struct {
	sdk.Connection
	transport *watchedTransport
}

// Write implements sdk.Connection. It records that a call is about to be sent, and does not send an abandoned one. If
// writing fails before the pipe took a single byte, it records that the call was not sent.
func (c *watchedConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	state := callStateOf(ctx)
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		return c.writeResponse(ctx, msg)
	}
	if req.IsCall() {
		c.transport.meter.requestSent(ctx, req.ID)
	}
	if state == nil || !req.IsCall() { // not a tool call, or a notification about one
		return c.Connection.Write(ctx, msg)
	}
	if allowed, _ := state.beginSend(); !allowed { // over stdio, a call is sent only once
		return context.Canceled
	}
	c.transport.mu.Lock()
	c.transport.pending[req.ID] = state
	c.transport.mu.Unlock()
	before := c.transport.bytesSent()
	err := c.Connection.Write(ctx, msg)
	if err != nil && before >= 0 && c.transport.bytesSent() == before {
		state.unsend()
	}
	return err
}

// writeResponse writes a response to a request of the server. It fails if the server sends too many requests, or does
// not read the responses.
func (c *watchedConn) writeResponse(ctx context.Context, msg jsonrpc.Message) error {
	sent, err := c.transport.meter.countReply()
	defer sent()
	if err != nil {
		return err
	}
	return c.Connection.Write(ctx, msg)
}

// bytesSent returns how many bytes were written to the server; -1 if that is unknown.
func (t *watchedTransport) bytesSent() int64 {
	if t.written == nil {
		return -1
	}
	return t.written()
}

// Read implements sdk.Connection. It counts each message against the bounds, marks the call that a response answers,
// and keeps the first error for readError.
func (c *watchedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if c.transport.meter != nil {
		c.transport.incoming.clearUnfinished()
	}
	if err == nil {
		err = c.transport.meter.countMessage()
	}
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	if err != nil {
		if c.transport.readErr == nil {
			c.transport.readErr = err
		}
		return nil, err
	}
	if resp, ok := msg.(*jsonrpc.Response); ok {
		if state := c.transport.pending[resp.ID]; state != nil {
			state.markAnswered()
			delete(c.transport.pending, resp.ID)
		}
	}
	return msg, nil
}
