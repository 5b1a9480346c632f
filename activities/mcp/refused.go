package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/retryafter"
)

// maxRefusal bounds, in bytes, how much of a response is read to see whether it is a refusal.
const maxRefusal = 64 << 10

// Bounds of the pause before a rate-limited call (429) is attempted again: the server's Retry-After, up to
// maxRefusalPause, or defaultRefusalPause if the server sent none.
const (
	defaultRefusalPause = time.Second
	maxRefusalPause     = 20 * time.Second
	maxRetryAfter       = 24 * time.Hour // the longest Retry-After that is believed
)

// Bounds of how often a server's HTTP front may refuse one call before the call is not attempted again. After a server
// restarts, each worker may hold a session that the server has forgotten.
const (
	maxUnknownSession = 3 // with 404, or with 400 and an error that names no request; then the outcome is unknown
	maxRateLimited    = 5 // with 429; then the call ends in an error
)

// refusal describes how a server's HTTP front refused a call without acting on it.
type refusal struct {
	status int
	wait   time.Duration // the server's Retry-After; 0: none
}

// unknownSession reports whether the refusal says that the server does not know the session.
func (r refusal) unknownSession() bool {
	return r.status == http.StatusNotFound || r.status == http.StatusBadRequest
}

// permanent reports whether the server would refuse the same call again if it were attempted soon: because of the
// status, or because the server asks for a pause that is too long to wait for.
func (r refusal) permanent() bool {
	switch r.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType:
		return true
	}
	return r.wait > maxRefusalPause
}

// pause returns how long to wait before the next attempt of the call; 0 means no wait.
func (r refusal) pause() time.Duration {
	if r.status != http.StatusTooManyRequests {
		return 0
	}
	return min(cmp.Or(r.wait, defaultRefusalPause), maxRefusalPause)
}

// text describes the refusal to the model, without the server's own text.
func (r refusal) text() string {
	text := fmt.Sprintf("refused it with HTTP %d (%s)", r.status, http.StatusText(r.status))
	if r.wait > 0 {
		text += fmt.Sprintf(" and asks for a pause of %s", r.wait.Round(time.Second))
	}
	return text
}

// refusedUnread returns nil unless the response is a refusal: unless it says that the server did not act on the
// request. It says so by its status (RFC 9110; 404 means, in the MCP transport, that the server does not know the
// session), or by 400 with a JSON-RPC error without an ID.
//
// refusedUnread replaces the body of a refusal. If the session goes on, the body becomes a JSON-RPC error, because the
// SDK drops the whole connection for any other body. A refusal that ends the session keeps only its status.
func refusedUnread(resp *http.Response) *refusal {
	r := refusal{status: resp.StatusCode}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		replaceBody(resp)
	case http.StatusTooManyRequests:
		r.wait = retryafter.Parse(resp.Header, time.Now(), maxRetryAfter)
		replaceBody(resp)
		resp.StatusCode = http.StatusUnprocessableEntity // the SDK does not read the body of a 429
	case http.StatusNotFound:
		resp.Body = restoredBody{http.NoBody, resp.Body}
	case http.StatusBadRequest:
		if !namesNoRequest(resp) {
			return nil
		}
		resp.Body = restoredBody{http.NoBody, resp.Body}
	default:
		return nil
	}
	resp.Status = fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)) // over SSE, the SDK's error ends with it
	return &r
}

// codeRefused is the code of the JSON-RPC errors that replaceBody writes. It is in the range that JSON-RPC leaves to
// applications.
const codeRefused = -31999

// replaceBody replaces the response's body with a JSON-RPC error. Its message is the server's own text, for the log.
func replaceBody(resp *http.Response) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil || len(head) == maxRefusal { // an incomplete body is not reported: the cut may split a secret
		head = nil
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "error": map[string]any{"code": codeRefused, "message": refusalText(head)},
	})
	if err != nil {
		body = nil
	}
	resp.Body = restoredBody{bytes.NewReader(body), resp.Body}
	resp.ContentLength = int64(len(body))
}

// refusalText returns the server's text in the body of a refusal: the message if the body is a JSON-RPC error,
// otherwise the whole body. The text is not cut, because it is not redacted yet, and a cut might split a secret.
func refusalText(body []byte) string {
	var m struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &m) // a body of another shape is shown as it is
	return printable.Sanitize(cmp.Or(m.Error.Message, string(body)))
}

// namesNoRequest reports whether the response's body is a JSON-RPC error without an ID. A server sends such a body,
// with an HTTP error status, if it cannot accept a message (MCP, streamable HTTP, "Sending Messages to the Server").
// The reference servers send it for an unknown session, for instance after a restart. The body can be read again
// afterwards.
func namesNoRequest(resp *http.Response) bool {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body = restoredBody{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	var m struct {
		ID    json.RawMessage `json:"id"`
		Error *struct {
			Code int64 `json:"code"`
		} `json:"error"`
	}
	if err != nil || json.Unmarshal(head, &m) != nil || m.Error == nil {
		return false
	}
	return len(m.ID) == 0 || string(m.ID) == "null"
}

// restoredBody is a response's body with another reader: the bytes already read and the rest, or a replacement. Close
// closes the original body.
type restoredBody struct {
	io.Reader
	io.Closer
}
