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

// checkRequest refuses a request that cannot be decided. An elicitation is required for its kind, and has at most
// MaxElicitationBytes.
func checkRequest(w turn.Request) error {
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
	if n := len(q.Key) + len(q.Message) + len(q.Schema) + len(q.URL); n > MaxElicitationBytes {
		return fmt.Errorf("the elicitation is %d bytes; the maximum is %d", n, MaxElicitationBytes)
	}
	return nil
}

// CheckDecision returns r as stores keep it, or an error if r does not settle w: see turn.Request.Settle. A call is
// allowed only with the arguments that were shown (ErrUnapproved).
func CheckDecision(w turn.Request, r turn.Decision) (turn.Decision, error) {
	r.By, r.Reason = Preview(CleanText(r.By), PreviewBytes), Preview(CleanText(r.Reason), SummaryBytes)
	r.ArgumentsHash = CleanText(r.ArgumentsHash)
	if r.Response != nil {
		response := *r.Response
		response.Key = CleanText(response.Key)
		r.Response = &response
	}
	r, refused := w.Settle(r)
	switch {
	case refused != nil && r.Allowed && r.ArgumentsHash != w.ArgumentsHash:
		return r, fmt.Errorf("%w: %w", ErrUnapproved, refused)
	case refused != nil:
		return r, refused
	case r.Response != nil:
		r.Response.Content = compact(r.Response.Content)
	}
	return r, nil
}
