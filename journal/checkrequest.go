package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// CleanRequest returns w as stores keep it: see clean. Texts that are shown to users are bounded. Only a request of
// kind elicitation keeps an elicitation.
func CleanRequest(w turn.Request) turn.Request {
	if w.Kind != turn.RequestApproval || !slices.Contains([]turn.GrantScope{turn.GrantCall, turn.GrantNever}, w.MaxGrant) {
		w.MaxGrant = ""
	}
	w.Arguments, w.Tool, w.ArgumentsHash = CleanText(w.Arguments), CleanText(w.Tool), CleanText(w.ArgumentsHash)
	w.Why = Preview(CleanText(w.Why), PreviewBytes)
	w.Question = Preview(CleanText(w.Question), SummaryBytes)
	if w.Kind != turn.RequestElicitation || w.Elicitation == nil {
		w.Elicitation, w.Call = nil, ""
		return w
	}
	w.Call = CleanText(w.Call)
	w.Elicitation = &turn.Elicitation{
		Key: CleanText(w.Elicitation.Key), Message: Preview(CleanText(w.Elicitation.Message), SummaryBytes),
		Schema: compact(w.Elicitation.Schema), URL: CleanText(w.Elicitation.URL),
	}
	return w
}

// compact returns JSON without insignificant spaces, and raw unchanged if it is not JSON. Empty JSON becomes nil.
func compact(raw json.RawMessage) json.RawMessage {
	text := CleanText(string(raw))
	if text == "" {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return json.RawMessage(text)
	}
	return b.Bytes()
}

// checkWait refuses a request that cannot be decided. An elicitation is required for its kind, and has at most
// MaxInquiryBytes.
func checkWait(w turn.Request) error {
	switch w.Kind {
	case turn.RequestApproval, turn.RequestQuestion:
		return nil
	case turn.RequestElicitation:
	default:
		return fmt.Errorf("unknown kind of request %q", w.Kind)
	}
	if w.Elicitation == nil || w.Call == "" {
		return errors.New("a request of kind elicitation needs an elicitation and a call")
	}
	q := w.Elicitation
	if len(q.Schema) > 0 && !json.Valid(q.Schema) {
		return errors.New("the elicitation's schema is not JSON")
	}
	if n := len(q.Key) + len(q.Message) + len(q.Schema) + len(q.URL); n > MaxInquiryBytes {
		return fmt.Errorf("the elicitation is %d bytes; the maximum is %d", n, MaxInquiryBytes)
	}
	return nil
}

// CheckDecision returns r as stores keep it, or an error if r is no decision of w. A call is allowed with the arguments
// that were shown and no others (ErrUnapproved). A response belongs to an elicitation, and must have the elicitation's
// key.
func CheckDecision(w turn.Request, r turn.Decision) (turn.Decision, error) {
	r.By, r.Reason = Preview(CleanText(r.By), PreviewBytes), Preview(CleanText(r.Reason), SummaryBytes)
	r.ArgumentsHash = CleanText(r.ArgumentsHash)
	if err := checkVerdict(w.Kind, r); err != nil {
		return r, err
	}
	if r.Status == turn.StatusExpired && r.ArgumentsHash == "" {
		r.ArgumentsHash = w.ArgumentsHash // the decision was made without showing them
	}
	if r.Allowed && r.ArgumentsHash != w.ArgumentsHash {
		return r, fmt.Errorf("the decision allows arguments with the hash %.8s, the call's have %.8s: %w", r.ArgumentsHash, w.ArgumentsHash, ErrUnapproved)
	}
	switch r.Grant {
	case "", turn.GrantCall, turn.GrantTool:
	default:
		return r, fmt.Errorf("unknown grant scope %q", r.Grant)
	}
	if r.Status != turn.StatusAllowed {
		r.Grant = ""
	}
	var err error
	r.Response, err = checkReply(w, r)
	return r, err
}

// checkVerdict refuses statuses that do not fit the kind of request, or that contradict Decision.Allowed.
func checkVerdict(kind turn.RequestKind, r turn.Decision) error {
	approval := kind == turn.RequestApproval
	fits, allowed := false, false
	switch r.Status {
	case turn.StatusAllowed:
		fits, allowed = approval, true
	case turn.StatusDenied:
		fits = approval || kind == turn.RequestElicitation
	case turn.StatusAnswered:
		fits = !approval
	case turn.StatusExpired:
		fits, allowed = true, r.Allowed && approval
	case turn.StatusCancelled:
		fits = true
	}
	if !fits {
		return fmt.Errorf("the status %q does not fit a request of kind %q", r.Status, kind)
	}
	if r.Allowed != allowed {
		return fmt.Errorf("the status %q and allowed=%v contradict each other", r.Status, r.Allowed)
	}
	return nil
}

// checkReply returns the decision's response as stores keep it. An answered elicitation has a response; an expired one
// has none.
func checkReply(w turn.Request, r turn.Decision) (*turn.ElicitationResponse, error) {
	said := r.Status == turn.StatusAnswered || r.Status == turn.StatusDenied
	switch {
	case w.Kind != turn.RequestElicitation || !said:
		return nil, nil
	case r.Response == nil && r.Status == turn.StatusAnswered:
		return nil, errors.New("an answered elicitation needs a response")
	case r.Response == nil:
		return nil, nil
	}
	response := turn.ElicitationResponse{Key: CleanText(r.Response.Key), Action: r.Response.Action}
	if response.Action == turn.ElicitationAccept && (w.Elicitation == nil || w.Elicitation.URL == "") { // else no content
		response.Content = compact(r.Response.Content)
	}
	if response.Key == "" && w.Elicitation != nil {
		response.Key = w.Elicitation.Key
	}
	switch {
	case w.Elicitation != nil && response.Key != w.Elicitation.Key:
		return nil, fmt.Errorf("the response has the key %q, the elicitation %q", Preview(response.Key, 80), Preview(w.Elicitation.Key, 80))
	case response.Action != turn.ElicitationAccept && response.Action != turn.ElicitationDecline && response.Action != turn.ElicitationCancel:
		return nil, fmt.Errorf("the response's action is %q: use accept, decline or cancel", Preview(string(response.Action), 80))
	case response.Content != nil && len(r.Response.Content) > MaxReplyBytes: // the bytes as they were sent
		return nil, fmt.Errorf("the response is %d bytes; the maximum is %d", len(r.Response.Content), MaxReplyBytes)
	case len(response.Content) > 0 && !json.Valid(response.Content):
		return nil, errors.New("the response's content is not JSON")
	}
	return &response, nil
}
