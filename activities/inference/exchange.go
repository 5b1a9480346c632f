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

// exchange is one HTTP request and its response.
type exchange struct {
	client      *http.Client
	phases      *phaseTimer
	limit       int64             // of the response's body, in bytes
	onConnected func(*phaseTimer) // begins the phase after connecting

	connected atomic.Bool
	sent      int // bytes of the request's body
	status    int // of the response; 0 if there was none
	header    http.Header
	refusal   []byte // the body of an unsuccessful response, bounded; nil if there was no such response
	truncated bool   // refusal is only the beginning of the body
	body      *boundedBody
}

// maxRefusal bounds how much of an error response's body is read, in bytes. It is needed only for an error message.
const maxRefusal = 64 << 10

// do sends the request and waits for the header of the response. It returns the body, which the caller must close and
// can read through e.body, within its bounds. It fails if there is no response, or, with errRefused, if the status is
// not 2xx.
func (e *exchange) do(ctx context.Context, method, url string, header http.Header, body []byte) (io.Closer, error) {
	// The first-token phase begins as soon as a connection is usable, whether it is new or reused.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		e.connected.Store(true)
		e.onConnected(e.phases)
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
		e.readRefusal(res.Body)
		return nil, errRefused
	}
	e.body = &boundedBody{r: res.Body, limit: e.limit, remaining: e.limit, phases: e.phases}
	return res.Body, nil
}

// readRefusal reads the beginning of the body of an error response, keeps it in e.refusal, and closes the body.
func (e *exchange) readRefusal(body io.ReadCloser) {
	kept, err := io.ReadAll(io.LimitReader(body, maxRefusal)) // what has arrived is enough for a message
	e.refusal = append([]byte{}, kept...)                     // an empty body is not nil: see the field
	e.truncated = err != nil || len(kept) == maxRefusal
	_ = body.Close()
}

// drain briefly reads the rest of a complete response, so that the connection can be reused.
func (e *exchange) drain() {
	e.phases.beginFixedPhase(100*time.Millisecond, errNoUsage)
	_, _ = io.CopyN(io.Discard, e.body, 4096) // best effort
}

// boundedBody is the body of a response. It fails after limit bytes, and restarts the current phase when bytes arrive.
type boundedBody struct {
	r                io.Reader
	limit, remaining int64
	phases           *phaseTimer
}

// Read implements io.Reader. It fails with an *overBound after limit bytes, without looking whether the body ends
// there.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, &overBound{b.limit, "bytes"}
	}
	if int64(len(p)) > b.remaining {
		p = p[:b.remaining]
	}
	n, err := b.r.Read(p)
	b.remaining -= int64(n)
	if n > 0 {
		b.phases.bytesArrived()
	}
	return n, err
}
