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

// exchange is one request and its response.
type exchange struct {
	client *http.Client
	watch  *watch
	limit  int64 // of the response's body, in bytes
	onConn func(*watch)

	connected atomic.Bool
	sent      int // bytes of the request's body
	status    int // of the response; 0 if there was none
	header    http.Header
	refusal   []byte // the body of an unsuccessful response, bounded; nil if there was none
	truncated bool   // refusal is only the beginning of the body
	body      *bounded
}

// maxRefusal bounds how much of a refusal's body is read, in bytes. Only an error message is taken from it.
const maxRefusal = 64 << 10

// do sends the request. It returns the response's body, or an error if there is none or if the status is not 2xx.
func (e *exchange) do(ctx context.Context, method, url string, header http.Header, body []byte) (io.Closer, error) {
	// The phase after connecting begins as soon as a connection is usable, new or reused.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		e.connected.Store(true)
		e.onConn(e.watch)
	}})
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	e.sent = len(body)
	res, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	e.status, e.header = res.StatusCode, res.Header
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		e.keepRefusal(res.Body)
		return nil, errRefused
	}
	e.body = &bounded{r: res.Body, most: e.limit, left: e.limit, watch: e.watch}
	return res.Body, nil
}

// keepRefusal keeps the beginning of the body of an unsuccessful response.
func (e *exchange) keepRefusal(body io.ReadCloser) {
	kept, err := io.ReadAll(io.LimitReader(body, maxRefusal)) // what has arrived is enough for a message
	e.refusal = append([]byte{}, kept...)
	e.truncated = err != nil || len(kept) == maxRefusal
	_ = body.Close()
}

// drain briefly reads the rest of a complete response, so that the connection can be reused.
func (e *exchange) drain() {
	e.watch.expectWithin(100*time.Millisecond, errTail)
	_, _ = io.CopyN(io.Discard, e.body, 4096) // best effort
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
