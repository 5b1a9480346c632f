package workflows

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/workflows/turn"
)

// maxInquiries bounds what the server of one call may ask, in all its rounds.
const maxInquiries = 32

// asking are the calls whose servers want to know something.
func asking(flights []*flight) []*flight {
	var open []*flight
	for _, f := range flights {
		if f.err == nil && len(f.receipt.Elicitations) > 0 {
			open = append(open, f)
		}
	}
	return open
}

// inquire puts what servers ask before people and waits until all of it is answered, like a question of the model: it costs
// no process, no step and no time of the turn while people are waited for.
func (r *run) inquire(ctx workflow.Context, flights []*flight) error {
	said, err := r.askFor(ctx, flights)
	if err != nil {
		return err
	}
	for _, f := range flights {
		f.replies, f.answers = nil, cmp.Or(f.receipt.Asked, f.attempt)
		for _, q := range f.receipt.Elicitations {
			f.asked++
			f.replies = append(f.replies, reply(q, said[questionID(f, f.asked)], f.asked > maxInquiries))
		}
		f.receipt = CallResult{}
	}
	return nil
}

// questionID is the ID of the n-th thing, from 1, that the server of a call asks.
func questionID(f *flight, n int) string { return fmt.Sprintf("e%s.%d", f.call.ID, n) }

// askFor puts before people what servers ask them, and returns what they said by the waits' IDs.
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

// hear waits for what people say to waits, and returns it by their IDs.
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

// reply is what a server is told. Where nobody has said anything, and where it asks without end, that is a cancel.
func reply(q turn.Elicitation, said turn.Decision, enough bool) turn.ElicitationResponse {
	if said.Response == nil || enough {
		return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationCancel}
	}
	return turn.ElicitationResponse{Key: q.Key, Action: said.Response.Action, Content: said.Response.Content}
}

// checkReply refuses what cannot be an answer to a server's question. Whether it fits the server's schema is checked
// where the schemas are; one that does not is asked for again.
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

// maxReplyBytes bounds what is said to a server's question.
const maxReplyBytes = 64 << 10
