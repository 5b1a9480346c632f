package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/everturn/everturn/activities/mcp/childproc"
	"github.com/everturn/everturn/activities/mcp/pool"
	"github.com/everturn/everturn/activities/tools/tool"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/retryafter"
	"github.com/everturn/everturn/workflows/turn"
)

// ending describes the stage at which the call ended and its cause. The checks are ordered: first whether anything was
// sent, then whether a response arrived.
func (f *dispatch) ending(r reply) tool.Ending {
	e := tool.Ending{Stage: tool.StageSent, By: f.endedBy(), Repeatable: f.req.Repeatable}
	var wire *jsonrpc.Error
	switch {
	case r.err == nil:
		e.Stage, e.Answer = tool.StageAnswered, answerOf(r)
	case !f.state.abandon():
		e.Stage = tool.StageUnsent
	case f.state.refused.Load():
		e.Stage = f.refusedStage(r.err)
	case errors.As(r.err, &wire) && !transportCode(wire.Code):
		e.Stage, e.Answer = tool.StageAnswered, tool.AnswerProtocol
	case e.By == tool.EndedByLoss && isClosed(f.state.answered):
		e.Stage, e.Answer = tool.StageAnswered, tool.AnswerUnreadable
	}
	return e
}

// refusedStage returns the stage of a call that the server's HTTP front refused. If the session was opened after the
// call was dispatched (f.fresh), a restart cannot have lost it. A server that forgets every session, or is always busy,
// may have acted, so attempts are counted.
func (f *dispatch) refusedStage(err error) tool.Stage {
	switch r, known := refusalOf(err); {
	case !known && (f.fresh || f.req.Refused+1 >= maxForgotten):
		return tool.StageSent
	case known && (r.permanent() || f.req.Refused+1 >= maxCrowded):
		return tool.StageForbidden
	}
	return tool.StageRefused
}

// endedBy returns what ended the wait when no response arrived.
func (f *dispatch) endedBy() tool.EndedBy {
	switch {
	case f.wire.Err() == nil && f.waiting.Err() == nil:
		return tool.EndedByLoss
	case timeIsUp(f.wire) || f.wire.Err() == nil && timeIsUp(f.waiting):
		return tool.EndedByDeadline
	}
	return tool.EndedByCancel
}

// conclude turns the call's ending into a result and updates the server's state. Only a server's response carries the
// server's own words. In every other case the model gets this package's words, because the session is not tainted by
// them; the server's words go to the log.
func (f *dispatch) conclude(e tool.Ending, r reply) (turn.ToolResult, error) {
	s := f.s
	switch e.Stage {
	case tool.StageAnswered:
		s.conn.Answered()
		out := f.answered(e, r)
		out.FromServer = out.Text != "" || out.Full != nil || len(out.Media) > 0
		return out, nil
	case tool.StageRefused, tool.StageForbidden:
		return f.refused(e, r.err)
	case tool.StageSent:
		return tool.Unknown(f.req.Tool, e, f.unansweredReason(e.By, r.err)), nil
	}
	return turn.ToolResult{}, tool.NotSent(s.owner.name(), safeErrorText(r.err), r.err)
}

// refused ends a call that the server's HTTP front refused. A refusal that does not end the session counts as a
// response: the server is healthy.
func (f *dispatch) refused(e tool.Ending, err error) (turn.ToolResult, error) {
	s := f.s
	refusal, ok := refusalOf(err)
	if !ok {
		s.conn.Lose()
		text := fmt.Sprintf("%s was not called: %s no longer knows the session, as after a restart", f.req.Tool,
			s.owner.name())
		return turn.ToolResult{}, &turn.Error{Code: turn.CodeToolNotSent, Message: text, Cause: err, Refused: true}
	}
	s.conn.Answered()
	text := fmt.Sprintf("%s was not called: %s %s.", f.req.Tool, s.owner.name(), refusal.text())
	said := s.owner.clean(err.Error(), 400)
	if e.Stage == tool.StageRefused {
		return turn.ToolResult{}, &turn.Error{Code: turn.CodeToolNotSent, Message: text, Cause: errors.New(said),
			RetryAfter: refusal.pause(), Refused: true}
	}
	s.owner.log.Warn("an MCP server refused a call", "server", s.owner.id(), "tool", f.req.Tool, "turn", f.req.Turn,
		"step", f.req.Step, "call", f.req.CallID, "status", refusal.Status, "it said", said)
	class, _ := e.Class()
	r := tool.Error(text)
	r.Outcome, r.Code = turn.Outcome(class), turn.CodeToolNotSent
	return r, nil
}

// unansweredReason explains why a sent call got no response.
func (f *dispatch) unansweredReason(by tool.EndedBy, err error) string {
	s := f.s
	if f.state.refused.Load() {
		s.conn.Lose()
		f.recordFailure("a call's session was not known: " + s.owner.clean(err.Error(), 200))
		return "the server answered that it does not know the session, which cannot be a session from before a restart"
	}
	switch by {
	case tool.EndedByDeadline:
		s.recycle(f.state, true)
		return "it did not answer in time"
	case tool.EndedByCancel:
		s.recycle(f.state, false)
		return "the call was cancelled before it answered"
	default:
		s.awaitLoss()
		return "the connection to it was lost" + f.lossReason(err)
	}
}

// answered returns the result of a call that got a response.
func (f *dispatch) answered(e tool.Ending, r reply) turn.ToolResult {
	var wire *jsonrpc.Error
	switch {
	case e.Answer == tool.AnswerProtocol && errors.As(r.err, &wire):
		return tool.Error(f.c.clean(wire.Message, 4096))
	case e.Answer == tool.AnswerUnreadable:
		return tool.Error("The tool ran and answered, but its answer cannot be read: " + f.c.clean(r.err.Error(), 300))
	case e.Answer == tool.AnswerElicits, e.Answer == tool.AnswerCannotElicit:
		return *r.input
	}
	return f.s.render(r.result)
}

// transportCode reports whether code is one that the SDK invents when the transport fails: client closing, server
// closing, rejected (its internal/jsonrpc2/wire.go).
func transportCode(code int64) bool { return code == -32003 || code == -32004 || code == -32005 }

// awaitLoss waits up to closeBound for a process whose connection is gone to exit: its exit status belongs in the
// error, and its crash must be counted before the next call.
func (s *session) awaitLoss() {
	if s.link.disposable {
		within(closeBound, func() { <-s.lost })
	}
}

// lossReason returns the part of the reason that the model may read, in parentheses. The full reason, which may quote
// the server, goes to the log and to the operator's status.
func (f *dispatch) lossReason(err error) string {
	s := f.s
	if broken := s.link.watched.broken(); broken != nil {
		err = broken
	}
	if e := s.link.meter.excess(); e != nil {
		err = e
	}
	why, fate := []string{}, s.link.fate()
	if ours := safeErrorText(err); ours != "" {
		why = append(why, ours)
	}
	all := "a call's connection was lost: " + s.owner.clean(err.Error(), 200)
	if fate != "" {
		why = append(why, "its process ended with "+fate)
		all += "; its process ended with " + fate
	}
	f.recordFailure(all)
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}

// recordFailure logs why a call got no response, and records it for the operator.
func (f *dispatch) recordFailure(what string) {
	f.c.log.Warn("a call got no answer", "server", f.c.id(), "tool", f.req.Tool, "turn", f.req.Turn, "step", f.req.Step,
		"call", f.req.CallID, "why", what)
	f.c.pool.Failed(what)
}

// safeErrorText describes a connection error without using any text that a server may have written. It returns an empty
// string for an unknown error.
func safeErrorText(err error) string {
	if e := (*Excess)(nil); errors.As(err, &e) {
		return e.Error()
	}
	for _, known := range []struct {
		is   error
		said string
	}{
		{childproc.ErrFrameTooLong, childproc.ErrFrameTooLong.Error()},
		{childproc.ErrFrameBroken, childproc.ErrFrameBroken.Error()},
		{childproc.ErrNoise, childproc.ErrNoise.Error()},
		{context.DeadlineExceeded, "the time was up"},
		{context.Canceled, "the call was cancelled"},
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EPIPE, "broken pipe"},
		{io.ErrUnexpectedEOF, "EOF"},
		{io.EOF, "EOF"},
		{syscall.EHOSTUNREACH, "no route to the host"},
		{syscall.ENETUNREACH, "no route to the network"},
		{exec.ErrNotFound, "its command was not found"},
		{fs.ErrNotExist, "its command was not found"},
		{fs.ErrPermission, "its command may not be run"},
	} {
		if errors.Is(err, known.is) {
			return known.said
		}
	}
	if dns := (*net.DNSError)(nil); errors.As(err, &dns) {
		return "its name cannot be resolved"
	}
	return ""
}

// modelText returns what the model may read of an error.
func modelText(err error) string {
	var o *pool.Outage
	if errors.As(err, &o) {
		return o.ModelText
	}
	if e := (*Excess)(nil); errors.As(err, &e) {
		return e.Error()
	}
	return safeErrorText(err)
}

// notCalledError returns the error of a call that was not sent: err itself if it is a *turn.Error, otherwise
// tool_not_sent with the reason and the time until the next attempt.
func notCalledError(tool string, err error) error {
	var e *turn.Error
	if errors.As(err, &e) {
		return e
	}
	out := turn.Errorf(turn.CodeToolNotSent, err, tool+" was not called")
	if why := modelText(err); why != "" {
		out.Message += ": " + why
	}
	var o *pool.Outage
	if errors.As(err, &o) {
		out.RetryAfter = o.Wait
	}
	return out
}

// maxRefusal bounds, in bytes, how much of a response is read to see whether it is a refusal.
const maxRefusal = 64 << 10

// Bounds of the pause before a rate-limited call (429) is dispatched again: the server's Retry-After, up to
// maxRefusalPause, or crowdedWait if the server sent none.
const (
	crowdedWait     = time.Second
	maxRefusalPause = 20 * time.Second
	maxRetryAfter   = 24 * time.Hour // the longest Retry-After that is believed
)

// Bounds of how many attempts of one dispatch a server's HTTP front may refuse. After a server restarts, each worker
// may hold a session that the server has forgotten.
const (
	maxForgotten = 3 // with 404, or with 400 and an error that names no request; then the outcome is unknown
	maxCrowded   = 5 // with 429, if the call is repeatable; then the call ends in an error
)

// refusal says how a server's HTTP front refused a call unread.
type refusal struct {
	Status int           `json:"status"`
	Wait   time.Duration `json:"wait,omitempty"` // the server's Retry-After; 0: none
}

// permanent reports whether the server would refuse the same call again now.
func (r refusal) permanent() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType:
		return true
	}
	return r.Wait > maxRefusalPause
}

// pause returns how long the next dispatch of the call must wait.
func (r refusal) pause() time.Duration {
	if r.Status != http.StatusTooManyRequests {
		return 0
	}
	return min(cmp.Or(r.Wait, crowdedWait), maxRefusalPause)
}

// text describes the refusal to the model, without the server's own text.
func (r refusal) text() string {
	said := fmt.Sprintf("refused it with HTTP %d (%s)", r.Status, http.StatusText(r.Status))
	if r.Wait > 0 {
		said += fmt.Sprintf(" and asks for a pause of %s", r.Wait.Round(time.Second))
	}
	return said
}

// refusedUnread reports whether the response says that the server did not act on the request: by its status (RFC 9110;
// for 404, the MCP transport: the session is gone), or by 400 with an error that names no request.
//
// It then replaces the response's body. A refusal that does not end the session becomes a JSON-RPC error that holds a
// refusal, because the SDK drops the whole connection for any other body. A refusal that ends the session keeps only
// its status. A server therefore cannot forge the refusal that a call ends with.
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
		resp.Body = restored{http.NoBody, resp.Body}
	case http.StatusBadRequest:
		if !namesNoRequest(resp) {
			return false
		}
		resp.Body = restored{http.NoBody, resp.Body}
	default:
		return false
	}
	resp.Status = status // over SSE the SDK reports nothing else
	return true
}

// codeRefused is the code of the errors that hold a refusal. It is in the range that JSON-RPC leaves to applications.
const codeRefused = -31999

// replace makes the response's body a JSON-RPC error that holds r. Its message is what the server said, for the log.
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
	resp.Body = restored{bytes.NewReader(body), resp.Body}
	resp.ContentLength = int64(len(body))
}

// refusalText returns what a server says with a refusal: the message of a JSON-RPC error, or else the body. The text is
// not cut, because it is not redacted yet.
func refusalText(body []byte) string {
	var m struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &m) // a body of another shape is shown as it is
	return printable.Sanitize(cmp.Or(m.Error.Message, string(body)))
}

// refusalOf extracts the refusal from a refused call's error; false if it is unknown, or if it ended the session.
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

// namesNoRequest reports whether the body is a JSON-RPC error without an ID. With an HTTP error status, a server that
// cannot accept a message answers so (MCP, streamable HTTP, "Sending Messages to the Server"). The reference servers do
// so when a session is unknown, for instance after a restart. The body can still be read.
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

// restored is a body with the bytes already read put back.
type restored struct {
	io.Reader
	io.Closer
}
