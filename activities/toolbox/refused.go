package toolbox

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

	"github.com/everturn/everturn/internal/plain"
	"github.com/everturn/everturn/internal/retryafter"
)

// maxRefusal bounds how much of an answer is read to see whether it is a refusal, in bytes.
const maxRefusal = 64 << 10

// How long a call waits that was one too many for its server: as long as the server asks for, where that is not too long,
// and else a second.
const (
	crowdedWait     = time.Second
	maxRefusalPause = 20 * time.Second
	maxRetryAfter   = 24 * time.Hour // of what is believed
)

// How many attempts of one dispatch of a call a server's front may refuse. The workers of a server that was restarted
// each have a session that it forgot.
const (
	maxForgotten = 3 // with 404, or with 400 and an error that names no request; then the outcome is unknown
	maxCrowded   = 5 // with 429, if the call is repeatable; then it ends in an error
)

// refusal is how a server's front refused a call unread.
type refusal struct {
	Status int           `json:"status"`
	Wait   time.Duration `json:"wait,omitempty"` // how long to leave the server alone; 0: it did not say
}

// forGood reports whether the same call would be refused again now.
func (r refusal) forGood() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType:
		return true
	}
	return r.Wait > maxRefusalPause
}

// pause is how long the next dispatch of the call is to wait.
func (r refusal) pause() time.Duration {
	if r.Status != http.StatusTooManyRequests {
		return 0
	}
	return min(cmp.Or(r.Wait, crowdedWait), maxRefusalPause)
}

// words say it to the model, without a word of the server's.
func (r refusal) words() string {
	said := fmt.Sprintf("refused it with HTTP %d (%s)", r.Status, http.StatusText(r.Status))
	if r.Wait > 0 {
		said += fmt.Sprintf(" and asks to be left alone for %s", r.Wait.Round(time.Second))
	}
	return said
}

// refusedUnread reports whether a server says with this response that it did not act on the request: by its status (RFC
// 9110; for 404, the MCP transport: the session is gone), or by 400 with an error that names no request.
//
// It then puts the response in our own words. A refusal that does not end the session becomes a JSON-RPC error that holds
// a refusal, because the SDK gives up the whole connection for any other body; of one that ends it nothing is left but the
// status. So no refusal that a call ends with is made up by a server.
func refusedUnread(resp *http.Response) bool {
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		refusal{Status: resp.StatusCode}.replace(resp)
	case http.StatusTooManyRequests:
		refusal{Status: resp.StatusCode, Wait: retryafter.Parse(resp.Header, time.Now(), maxRetryAfter)}.replace(resp)
		resp.StatusCode = http.StatusUnprocessableEntity // of 429 the SDK does not read the body
	case http.StatusNotFound:
		resp.Body = restored{http.NoBody, resp.Body}
	case http.StatusBadRequest:
		if !namesNoRequest(resp) {
			return false
		}
		resp.Body = restored{http.NoBody, resp.Body}
	default:
		return false
	}
	resp.Status = status // over SSE it is all that the SDK tells
	return true
}

// codeRefused is the code of the errors that hold a refusal. It is of the range that JSON-RPC leaves to programs.
const codeRefused = -31999

// replace makes the response's body an error that holds r. What the server said is its message, for the log.
func (r refusal) replace(resp *http.Response) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil || len(head) == maxRefusal { // what was not read whole is not told: the cut may part a secret
		head = nil
	}
	data, err := json.Marshal(r)
	if err != nil { // two numbers always marshal
		data = nil
	}
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "error": map[string]any{"code": codeRefused, "message": saidWith(head), "data": json.RawMessage(data)},
	})
	if err != nil {
		body = nil
	}
	resp.Body = restored{bytes.NewReader(body), resp.Body}
	resp.ContentLength = int64(len(body))
}

// saidWith is what a server says with a refusal: the message of a JSON-RPC error, or else the body. It is not cut, because
// it is not redacted yet.
func saidWith(body []byte) string {
	var m struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &m) // of another shape, it is shown as it is
	return plain.Sanitize(cmp.Or(m.Error.Message, string(body)))
}

// refusalOf is the refusal that a refused call ended with; false where it is not known, or the session ended with it.
func refusalOf(err error) (r refusal, ok bool) {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) && wire.Code == codeRefused {
		return r, json.Unmarshal(wire.Data, &r) == nil
	}
	// Over SSE any refusal ends the connection, and the SDK's error ends with the status line.
	_, status, _ := strings.Cut(err.Error(), "failed to write: ")
	number, _, _ := strings.Cut(status, " ")
	r.Status, err = strconv.Atoi(number)
	return r, err == nil && r.Status != http.StatusNotFound && r.Status != http.StatusBadRequest
}

// namesNoRequest reports whether the body is a JSON-RPC error without an ID. Beside an HTTP error that is what a server
// answers which cannot accept what it was sent (MCP, streamable HTTP, "Sending Messages to the Server"). The reference
// servers do so where a session is unknown, for instance because they were started anew. The body can still be read.
func namesNoRequest(resp *http.Response) bool {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body = restored{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
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

// restored is a body with what was read of it put back.
type restored struct {
	io.Reader
	io.Closer
}
