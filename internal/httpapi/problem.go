package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows/turn"
)

// problem is an error that the caller gets.
type problem struct {
	status  int
	kind    kind
	code    string // one word for programs
	param   string // the field that is wrong, if it is one
	message string // what happened and what to do
	// retryAfter is when a request may be repeated, in seconds; 0: the response does not say.
	retryAfter int
	decision   *turn.Decision // the one that stands: see client.DecidedError
	final      bool           // the request has the same outcome if it is sent again
}

// kind is the class of a problem, by the names of the Open Responses API.
type kind string

const (
	kindInvalid         kind = "invalid_request"
	kindUnauthenticated kind = "authentication_error"
	kindForbidden       kind = "permission_error"
	kindNotFound        kind = "not_found"
	kindConflict        kind = "conflict"
	kindTooMany         kind = "too_many_requests"
	kindUnavailable     kind = "unavailable"
	kindServer          kind = "server_error"
)

// Error implements error.
func (p *problem) Error() string { return p.message }

// invalid returns the problem of a request that is wrong. param names the field; it may be empty.
func invalid(param, format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, kind: kindInvalid, code: "invalid", param: param,
		message: fmt.Sprintf(format, args...)}
}

func tooLarge(limit int64) *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, kind: kindInvalid, code: "too_large",
		message: fmt.Sprintf("the request exceeds %d bytes", limit)}
}

// problems maps the errors of a client to problems. The first that matches counts.
var problems = []struct {
	err    error
	status int
	kind   kind
	code   string
}{
	{client.ErrInvalid, http.StatusBadRequest, kindInvalid, "invalid"},
	{client.ErrForkPoint, http.StatusBadRequest, kindInvalid, "fork_point"},
	{client.ErrNotPending, http.StatusNotFound, kindNotFound, "not_pending"},
	{client.ErrNotRunning, http.StatusConflict, kindConflict, "not_running"},
	{client.ErrBusy, http.StatusConflict, kindConflict, "busy"},
	{client.ErrExists, http.StatusConflict, kindConflict, "exists"},
	{client.ErrConflict, http.StatusConflict, kindConflict, "changed"},
	{client.ErrArgumentsChanged, http.StatusConflict, kindConflict, "arguments_changed"},
	{client.ErrAlreadyDecided, http.StatusConflict, kindConflict, "already_decided"},
	{client.ErrForeign, http.StatusConflict, kindConflict, "foreign"},
	{client.ErrExpired, http.StatusGone, kindConflict, "expired"},
	{client.ErrNotFound, http.StatusNotFound, kindNotFound, "not_found"},
	{client.ErrNoWorker, http.StatusServiceUnavailable, kindUnavailable, "no_worker"},
	{client.ErrUndelivered, http.StatusServiceUnavailable, kindUnavailable, "undelivered"},
	{client.ErrUnreachable, http.StatusServiceUnavailable, kindUnavailable, "temporal_unreachable"},
	{client.ErrUnavailable, http.StatusServiceUnavailable, kindUnavailable, "journal_unavailable"},
	{client.ErrReadOnly, http.StatusServiceUnavailable, kindUnavailable, "journal_read_only"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, kindUnavailable, "timeout"},
}

// retrySeconds is the header Retry-After of a request that Temporal, the journal or a worker did not answer.
const retrySeconds = 2

// asProblem returns the problem that an error is for the caller. An error that is not in the table is in the log only:
// the caller gets the code internal.
func asProblem(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	for _, known := range problems {
		if !errors.Is(err, known.err) {
			continue
		}
		p = &problem{status: known.status, kind: known.kind, code: known.code, message: err.Error()}
		if p.status == http.StatusServiceUnavailable {
			p.retryAfter = retrySeconds
		}
		var decided *client.DecidedError
		if errors.As(err, &decided) {
			p.decision = &decided.Decision
		}
		return p
	}
	return &problem{status: http.StatusInternalServerError, kind: kindServer, code: "internal",
		message: "the server failed; its log says why"}
}

// problemBody is a problem as JSON.
type problemBody struct {
	Error problemError `json:"error"`
}

// problemError is the content of problemBody. The four fields are those of OpenAI's APIs.
type problemError struct {
	Type     kind           `json:"type"`
	Code     string         `json:"code"`
	Message  string         `json:"message"`
	Param    string         `json:"param,omitempty"`
	Decision *turn.Decision `json:"decision,omitempty" jsonschema:"the decision that stands, if the code is already_decided"`
}

// write sends the problem.
func (p *problem) write(w http.ResponseWriter) {
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(p.retryAfter))
	}
	if p.final {
		w.Header().Set("X-Should-Retry", "false") // as the SDKs of OpenAI know it
	}
	_ = writeJSON(w, p.status, p.body())
}

// body returns the problem as JSON has it.
func (p *problem) body() problemBody {
	return problemBody{problemError{p.kind, p.code, p.message, p.param, p.decision}}
}

// writeJSON sends a value as JSON.
func writeJSON(w http.ResponseWriter, status int, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding the response: %w", err)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) // however long the answer took
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(append(b, '\n'))
	return err
}
