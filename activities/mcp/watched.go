package mcp

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// callState is what the transport knows of one call. It travels in the call's context, with the call's share.
type callState struct {
	phase    atomic.Int32
	refused  atomic.Bool // the server's HTTP front refused the call unread
	answered chan struct{}
	once     sync.Once
	share    share
}

// The phases of a call. A call that was abandoned unsent can no longer be sent.
const (
	phaseUnsent = iota
	phaseSent   // a byte of the call may have reached the server
	phaseAbandoned
)

// send requests permission to send the call. allowed is false if the caller has already been told that the call was not
// sent. first is true for exactly one of several senders; only that one may call unsend.
func (s *callState) send() (allowed, first bool) {
	first = s.phase.CompareAndSwap(phaseUnsent, phaseSent)
	return s.phase.Load() == phaseSent, first
}

// unsend withdraws send if no byte was written.
func (s *callState) unsend() { s.phase.CompareAndSwap(phaseSent, phaseUnsent) }

// abandon decides whether the call was sent. If it was not, abandon prevents it from being sent.
func (s *callState) abandon() (sent bool) {
	s.phase.CompareAndSwap(phaseUnsent, phaseAbandoned)
	return s.phase.Load() == phaseSent
}

type callStateKey struct{}

func newCallState(ctx context.Context) (context.Context, *callState) {
	st := &callState{answered: make(chan struct{})}
	return withShare(context.WithValue(ctx, callStateKey{}, st), &st.share), st
}

func callStateOf(ctx context.Context) *callState {
	st, _ := ctx.Value(callStateKey{}).(*callState)
	return st
}

func (s *callState) answer() { s.once.Do(func() { close(s.answered) }) }

// watchedTransport observes each message: which calls were written, which were answered (even after the SDK gave them
// up), and what ended the stream, which the SDK's errors do not say.
type watchedTransport struct {
	inner sdk.Transport
	sent  func() int64 // bytes that were written; nil: unknown
	meter *meter       // nil: the connection has no bounds
	out   *stream      // the meter's stream of what the server sends

	mu      sync.Mutex
	pending map[jsonrpc.ID]*callState
	readErr error
}

// Connect implements sdk.Transport.
func (t *watchedTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.pending = map[jsonrpc.ID]*callState{}
	return &watchedConn{Connection: conn, t: t}, nil
}

// broken returns the error that ended reading, or nil.
func (t *watchedTransport) broken() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.readErr
}

type watchedConn struct {
	sdk.Connection
	t *watchedTransport
}

// Write records that a call is about to be sent. If writing fails before the pipe took a single byte, the call was not
// sent.
func (c *watchedConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	st := callStateOf(ctx)
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		return c.reply(ctx, msg)
	}
	if req.IsCall() {
		c.t.meter.asked(ctx, req.ID)
	}
	if st == nil || !req.IsCall() {
		return c.Connection.Write(ctx, msg)
	}
	if allowed, _ := st.send(); !allowed {
		return context.Canceled
	}
	c.t.mu.Lock()
	c.t.pending[req.ID] = st
	c.t.mu.Unlock()
	before := c.t.bytesSent()
	err := c.Connection.Write(ctx, msg)
	if err != nil && before >= 0 && c.t.bytesSent() == before {
		st.unsend()
	}
	return err
}

// reply sends the response to a request of the server, unless the server does not read its responses.
func (c *watchedConn) reply(ctx context.Context, msg jsonrpc.Message) error {
	sent, err := c.t.meter.reply()
	defer sent()
	if err != nil {
		return err
	}
	return c.Connection.Write(ctx, msg)
}

func (t *watchedTransport) bytesSent() int64 {
	if t.sent == nil {
		return -1
	}
	return t.sent()
}

// Read records which call a response belongs to.
func (c *watchedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if c.t.meter != nil {
		c.t.out.whole()
	}
	if err == nil {
		err = c.t.meter.message()
	}
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if err != nil {
		if c.t.readErr == nil {
			c.t.readErr = err
		}
		return nil, err
	}
	if resp, ok := msg.(*jsonrpc.Response); ok {
		if st := c.t.pending[resp.ID]; st != nil {
			st.answer()
			delete(c.t.pending, resp.ID)
		}
	}
	return msg, nil
}
