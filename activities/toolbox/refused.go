package toolbox

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// maxRefusal bounds how much of an answer is read to see whether it is a refusal, in bytes.
const maxRefusal = 64 << 10

// refusedUnread reports whether a server says with this response that it did not act on the request: by its status (RFC
// 9110; for 404, the MCP transport: the session is gone), or by 400 with an error that names no request.
func refusedUnread(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests:
		return true
	case http.StatusBadRequest:
		return namesNoRequest(resp)
	}
	return false
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
