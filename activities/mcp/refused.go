package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

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
	Status int           `json:"status"`
	Wait   time.Duration `json:"wait,omitempty"` // the server's Retry-After; 0: none
}

// permanent reports whether the server would refuse the same call again if it were attempted soon: because of the
// status, or because the server asks for a pause that is too long to wait for.
func (r refusal) permanent() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType:
		return true
	}
	return r.Wait > maxRefusalPause
}

// pause returns how long to wait before the next attempt of the call; 0 means no wait.
func (r refusal) pause() time.Duration {
	if r.Status != http.StatusTooManyRequests {
		return 0
	}
	return min(cmp.Or(r.Wait, defaultRefusalPause), maxRefusalPause)
}

// text describes the refusal to the model, without the server's own text.
func (r refusal) text() string {
	text := fmt.Sprintf("refused it with HTTP %d (%s)", r.Status, http.StatusText(r.Status))
	if r.Wait > 0 {
		text += fmt.Sprintf(" and asks for a pause of %s", r.Wait.Round(time.Second))
	}
	return text
}

// refusedUnread reports whether the response is a refusal: whether it says that the server did not act on the request.
// It says so by its status (RFC 9110; 404 means, in the MCP transport, that the server does not know the session), or
// by 400 with a JSON-RPC error without an ID.
//
// If so, refusedUnread replaces the response's body. A refusal that does not end the session becomes a JSON-RPC error
// with a refusal as its data (see refusalOf), because the SDK drops the whole connection for any other body. A refusal
// that ends the session keeps only its status. refusalOf therefore reads nothing that the server wrote, so a server
// cannot forge a refusal.
func refusedUnread(resp *http.Response) bool {
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		refusal{Status: resp.StatusCode}.replace(resp)
	case http.StatusTooManyRequests:
		refusal{Status: resp.StatusCode, Wait: retryafter.Parse(resp.Header, time.Now(), maxRetryAfter)}.replace(resp)
		resp.StatusCode = http.StatusUnprocessableEntity // the SDK does not read the body of a 429
	case http.StatusNotFound:
		resp.Body = restoredBody{http.NoBody, resp.Body}
	case http.StatusBadRequest:
		if !namesNoRequest(resp) {
			return false
		}
		resp.Body = restoredBody{http.NoBody, resp.Body}
	default:
		return false
	}
	resp.Status = status // over SSE the SDK's error contains only this status line: see refusalOf
	return true
}

// codeRefused is the code of the JSON-RPC errors that refusedUnread writes. It is in the range that JSON-RPC leaves to
// applications.
const codeRefused = -31999

// replace replaces the response's body with a JSON-RPC error that has r as its data. The error's message is the
// server's own text, for the log.
func (r refusal) replace(resp *http.Response) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil || len(head) == maxRefusal { // an incomplete body is not reported: the cut may split a secret
		head = nil
	}
	data, err := json.Marshal(r)
	if err != nil { // two numbers always marshal
		data = nil
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "error": map[string]any{"code": codeRefused, "message": refusalText(head),
			"data": json.RawMessage(data)},
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

// refusalOf returns the refusal in the SDK's error of a refused call. sessionKnown is false if the error contains none:
// the server has then said that it does not know the session.
func refusalOf(err error) (r refusal, sessionKnown bool) {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) && wire.Code == codeRefused {
		err := json.Unmarshal(wire.Data, &r)
		return r, err == nil
	}
	// Over SSE every refusal ends the connection, and the SDK's error ends with the status line. 404 and 400 mean that
	// the server does not know the session.
	_, status, _ := strings.Cut(err.Error(), "failed to write: ")
	number, _, _ := strings.Cut(status, " ")
	r.Status, err = strconv.Atoi(number)
	return r, err == nil && r.Status != http.StatusNotFound && r.Status != http.StatusBadRequest
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
