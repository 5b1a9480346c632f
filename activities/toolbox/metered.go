package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// admit lets a request of this connection go, unless it exceeds a bound. The request that it returns ends when the
// connection is dropped; release belongs to the end of its response.
func (m *meter) admit(req *http.Request) (admitted *http.Request, release func(), err error) {
	if e := m.excess(); e != nil {
		return nil, nil, e
	}
	sent := func() {}
	switch {
	case req.Method == http.MethodGet:
		err = m.request()
	case req.Method == http.MethodPost && callStateOf(req.Context()) == nil && isReply(req):
		sent, err = m.reply(int(max(req.ContentLength, 0)))
	case req.Method == http.MethodPost:
		m.asked()
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

// isReply reports whether the request carries a JSON-RPC response, which is the only message without a method.
func isReply(req *http.Request) bool {
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	var m struct {
		Method *string `json:"method"`
	}
	return json.NewDecoder(body).Decode(&m) == nil && m.Method == nil
}

// meteredBody counts what is read of a response. Of an event stream it counts the events, too.
type meteredBody struct {
	io.ReadCloser
	stream  stream
	release func()
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if over := b.count(p[:n]); over != nil {
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
	return b.ReadCloser.Close()
}
