package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

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
		return m.reply(len(raw))
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
