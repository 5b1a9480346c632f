package record

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// CheckID returns an error if an ID is empty, longer than MaxIDBytes, or not text that every database can store. kind
// names the ID in the error, such as "session".
func CheckID(kind, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s ID is empty", kind)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%s ID is %d bytes; the maximum is %d", kind, len(id), MaxIDBytes)
	case CleanText(id) != id:
		return fmt.Errorf("%s ID %q is not valid UTF-8 without NUL", kind, id)
	}
	return nil
}

// CheckTenant is CheckID for a tenant. It also accepts the empty ID of the default tenant.
func CheckTenant(tenant string) error {
	if tenant == "" {
		return nil
	}
	return CheckID("tenant", tenant)
}

// CheckRequest returns an error if the journal cannot record a request: its kind is unknown, or its kind is elicitation
// and it has no call or no valid elicitation of at most MaxElicitationBytes.
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

// CheckDecision returns the decision r in the form in which journals record it, with clean and bounded texts, or an
// error if it does not settle req: see turn.Request.Settle. The error wraps ErrUnapproved if r allows a call with
// other arguments than req has.
func CheckDecision(req turn.Request, r turn.Decision) (turn.Decision, error) {
	r.By, r.Reason = Preview(CleanText(r.By), PreviewBytes), Preview(CleanText(r.Reason), SummaryBytes)
	r.ArgumentsHash = CleanText(r.ArgumentsHash)
	if r.Response != nil {
		response := *r.Response // a copy: the caller's response does not change
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
