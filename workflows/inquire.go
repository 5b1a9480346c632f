package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxInquiries bounds the elicitations of one call, over all its rounds.
const maxInquiries = 32

// asking returns the calls with open elicitations.
func asking(flights []*flight) []*flight {
	var open []*flight
	for _, f := range flights {
		if f.err == nil && len(f.receipt.Elicitations) > 0 {
			open = append(open, f)
		}
	}
	return open
}

// inquire opens the elicitations of the calls and waits until all are settled. As for a question of the model, waiting
// uses no process, no step and no working time of the turn.
func (r *run) inquire(ctx workflow.Context, flights []*flight) error {
	said, err := r.askFor(ctx, flights)
	if err != nil {
		return err
	}
	for _, f := range flights {
		f.replies, f.answers = nil, cmp.Or(f.receipt.ElicitationAttempt, f.attempt)
		for _, q := range f.receipt.Elicitations {
			f.asked++
			f.replies = append(f.replies, reply(q, said[questionID(f, f.asked)], f.asked > maxInquiries))
		}
		f.receipt = CallResult{}
	}
	return nil
}

// questionID returns the request ID of a call's n-th elicitation, counted from 1.
func questionID(f *flight, n int) string { return fmt.Sprintf("e%s.%d", f.call.ID, n) }

// askFor opens a request for each elicitation and returns the decisions by request ID.
func (r *run) askFor(ctx workflow.Context, flights []*flight) (map[string]turn.Decision, error) {
	var requests []turn.Request
	for _, f := range flights {
		for i, q := range f.receipt.Elicitations {
			requests = append(requests, turn.Request{
				ID: questionID(f, f.asked+i+1), Kind: turn.RequestElicitation, Step: r.progress.Counters.Step,
				Tool: f.call.Tool, Call: f.call.ID, Question: turn.Truncate(q.Message, maxQuestion), Elicitation: &q,
				ExpiresAt: expiry(ctx, r.progress.Config.Approvals.QuestionExpiry),
			})
		}
	}
	return r.hear(ctx, requests, r.progress.Config.Approvals.QuestionExpiry)
}

// hear opens requests, waits for their decisions and returns them by request ID.
func (r *run) hear(ctx workflow.Context, requests []turn.Request, within time.Duration) (map[string]turn.Decision, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	if err := r.askPeople(ctx, requests); err != nil {
		return nil, err
	}
	decisions, err := r.collect(ctx, requests, within)
	if err != nil {
		return nil, err
	}
	said := make(map[string]turn.Decision, len(decisions))
	for _, decision := range decisions {
		said[decision.ID] = decision
	}
	return said, r.goOn(ctx)
}

// reply returns the response for the server. It is a cancel if the user did not respond, or if the server exceeds
// maxInquiries.
func reply(q turn.Elicitation, said turn.Decision, enough bool) turn.ElicitationResponse {
	if said.Response == nil || enough {
		return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationCancel}
	}
	return turn.ElicitationResponse{Key: q.Key, Action: said.Response.Action, Content: said.Response.Content}
}

// checkReply rejects an invalid response to an elicitation. The activity checks it against the server's schema, which
// the workflow does not have; a response that does not fit is requested again.
func checkReply(w turn.Request, p *turn.ElicitationResponse) *turn.Error {
	switch {
	case p == nil:
		return invalid("%s asks for fields, not for a message; answer with reply {action, content}", turn.Truncate(w.Tool, 80))
	case p.Action != turn.ElicitationAccept && p.Action != turn.ElicitationDecline && p.Action != turn.ElicitationCancel:
		return invalid("the reply's action is %q; it must be accept, decline or cancel", turn.Truncate(string(p.Action), 40))
	case p.Key != "" && w.Elicitation != nil && p.Key != w.Elicitation.Key:
		return invalid("the reply's key is %q and the question's is %q; leave it out", turn.Truncate(p.Key, 80), turn.Truncate(w.Elicitation.Key, 80))
	case len(p.Content) > maxReplyBytes:
		return invalid("the reply has %d bytes and %d are the most", len(p.Content), maxReplyBytes)
	case p.Action != turn.ElicitationAccept || w.Elicitation != nil && w.Elicitation.URL != "":
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(p.Content, &object); err != nil || object == nil {
		return invalid("the reply's content is no JSON object of the fields that were asked for")
	}
	return nil
}

// maxReplyBytes bounds the content of a response to an elicitation.
const maxReplyBytes = 64 << 10
