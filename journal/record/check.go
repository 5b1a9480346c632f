package record

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// CheckID refuses an ID that is empty, too long, or not text that every database can keep. what names it in the error.
func CheckID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s ID is empty", what)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%s ID is %d bytes; the maximum is %d", what, len(id), MaxIDBytes)
	case CleanText(id) != id:
		return fmt.Errorf("%s ID %q is not valid UTF-8 without NUL", what, id)
	}
	return nil
}

// CheckTenant accepts the IDs that CheckID accepts, and the default tenant.
func CheckTenant(tenant string) error {
	if tenant == "" {
		return nil
	}
	return CheckID("tenant", tenant)
}

// CheckRequest refuses a request that cannot be decided. An elicitation is required for its kind, and has at most
// MaxElicitationBytes.
func CheckRequest(r turn.Request) error {
	switch r.Kind {
	case turn.RequestApproval, turn.RequestQuestion:
		return nil
	case turn.RequestElicitation:
	default:
		return fmt.Errorf("unknown kind of request %q", r.Kind)
	}
	if r.Elicitation == nil || r.Call == "" {
		return errors.New("a request of kind elicitation needs an elicitation and a call")
	}
	q := r.Elicitation
	if len(q.Schema) > 0 && !json.Valid(q.Schema) {
		return errors.New("the elicitation's schema is not JSON")
	}
	if n := len(q.Key) + len(q.Message) + len(q.Schema) + len(q.URL); n > MaxElicitationBytes {
		return fmt.Errorf("the elicitation is %d bytes; the maximum is %d", n, MaxElicitationBytes)
	}
	return nil
}

// CheckDecision returns r as journals keep it, or an error if r does not settle w: see turn.Request.Settle. A call is
// allowed only with the arguments that were shown (ErrUnapproved).
func CheckDecision(req turn.Request, r turn.Decision) (turn.Decision, error) {
	r.By, r.Reason = Preview(CleanText(r.By), PreviewBytes), Preview(CleanText(r.Reason), SummaryBytes)
	r.ArgumentsHash = CleanText(r.ArgumentsHash)
	if r.Response != nil {
		response := *r.Response
		response.Key = CleanText(response.Key)
		r.Response = &response
	}
	r, refused := req.Settle(r)
	switch {
	case refused != nil && r.Allowed && r.ArgumentsHash != req.ArgumentsHash:
		return r, fmt.Errorf("%w: %w", ErrUnapproved, refused)
	case refused != nil:
		return r, refused
	case r.Response != nil:
		r.Response.Content = compact(r.Response.Content)
	}
	return r, nil
}
