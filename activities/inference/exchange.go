package inference

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// exchange is one request and its response. As the library's HTTPDoer it sits between the library and the network.
type exchange struct {
	client  *http.Client
	watch   *watch
	limit   int64  // of the response's body, in bytes
	request []byte // replaces the body that the library writes; nil keeps it
	onConn  func(*watch)

	requested bool // the library has made a request
	connected atomic.Bool
	sent      int // bytes of the request's body
	status    int // of the response; 0 if there was none
	header    http.Header
	refusal   []byte // the body of an unsuccessful response, bounded
	truncated bool   // refusal is only the beginning of the body
	body      *bounded
}

// maxRefusal bounds how much of a refusal's body is read, in bytes. Only an error message is taken from it.
const maxRefusal = 64 << 10

// trace begins the phase after connecting as soon as a connection is usable, new or reused.
func (x *exchange) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		x.connected.Store(true)
		x.onConn(x.watch)
	}})
}

// Do implements openai.HTTPDoer.
func (x *exchange) Do(req *http.Request) (*http.Response, error) {
	x.requested = true
	if x.request != nil {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.request)), nil }
		req.Body, _ = req.GetBody() // never fails
		req.ContentLength = int64(len(x.request))
	}
	x.sent = int(req.ContentLength)
	res, err := x.client.Do(req)
	if err != nil {
		return nil, err
	}
	x.status, x.header = res.StatusCode, res.Header
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		return x.keepRefusal(res), nil
	}
	x.body = &bounded{r: res.Body, most: x.limit, left: x.limit, watch: x.watch}
	res.Body = readCloser{x.body, res.Body}
	return res, nil
}

// keepRefusal keeps the beginning of the body and gives the library a body that it can read completely. The library
// treats redirects as successes; here they are refusals.
func (x *exchange) keepRefusal(res *http.Response) *http.Response {
	var err error
	x.refusal, err = io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // what has arrived is enough for a message
	x.truncated = err != nil || len(x.refusal) == maxRefusal
	_ = res.Body.Close()
	res.Body = http.NoBody
	res.StatusCode = max(res.StatusCode, http.StatusBadRequest)
	return res
}

// drain briefly reads the rest of a complete response, so that the connection can be reused.
func (x *exchange) drain() {
	x.watch.expectWithin(100*time.Millisecond, errTail)
	_, _ = io.CopyN(io.Discard, x.body, 4096) // best effort
}

// bounded fails after most bytes and reports each read to the watch.
type bounded struct {
	r          io.Reader
	most, left int64
	watch      *watch
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &overBound{b.most, "bytes"}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if n > 0 {
		b.watch.alive()
	}
	return n, err
}

type readCloser struct {
	io.Reader
	io.Closer
}
