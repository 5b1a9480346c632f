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
		if f.err == nil && len(f.receipt.Inquiries) > 0 {
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
		for _, q := range f.receipt.Inquiries {
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
func (r *run) askFor(ctx workflow.Context, flights []*flight) (map[string]turn.Ruling, error) {
	var waits []turn.Wait
	for _, f := range flights {
		for i, q := range f.receipt.Inquiries {
			waits = append(waits, turn.Wait{
				ID: questionID(f, f.asked+i+1), Kind: turn.WaitElicitation, Step: r.progress.Counters.Step,
				Tool: f.call.Tool, Call: f.call.ID, Question: turn.Cut(q.Message, maxQuestion), Inquiry: &q,
				ExpiresAt: expiry(ctx, r.progress.Pins.People.QuestionExpiry),
			})
		}
	}
	return r.hear(ctx, waits, r.progress.Pins.People.QuestionExpiry)
}

// hear waits for what people say to waits, and returns it by their IDs.
func (r *run) hear(ctx workflow.Context, waits []turn.Wait, within time.Duration) (map[string]turn.Ruling, error) {
	if len(waits) == 0 {
		return nil, nil
	}
	if err := r.askPeople(ctx, waits); err != nil {
		return nil, err
	}
	rulings, err := r.collect(ctx, waits, within)
	if err != nil {
		return nil, err
	}
	said := make(map[string]turn.Ruling, len(rulings))
	for _, ruling := range rulings {
		said[ruling.ID] = ruling
	}
	return said, r.goOn(ctx)
}

// reply is what a server is told. Where nobody has said anything, and where it asks without end, that is a cancel.
func reply(q turn.Inquiry, said turn.Ruling, enough bool) turn.Reply {
	if said.Reply == nil || enough {
		return turn.Reply{Key: q.Key, Action: turn.ReplyCancel}
	}
	return turn.Reply{Key: q.Key, Action: said.Reply.Action, Content: said.Reply.Content}
}

// checkReply refuses what cannot be an answer to a server's question. Whether it fits the server's schema is checked
// where the schemas are; one that does not is asked for again.
func checkReply(w turn.Wait, p *turn.Reply) *turn.Error {
	switch {
	case p == nil:
		return invalid("%s asks for fields, not for a message; answer with reply {action, content}", turn.Cut(w.Tool, 80))
	case p.Action != turn.ReplyAccept && p.Action != turn.ReplyDecline && p.Action != turn.ReplyCancel:
		return invalid("the reply's action is %q; it must be accept, decline or cancel", turn.Cut(string(p.Action), 40))
	case p.Key != "" && w.Inquiry != nil && p.Key != w.Inquiry.Key:
		return invalid("the reply's key is %q and the question's is %q; leave it out", turn.Cut(p.Key, 80), turn.Cut(w.Inquiry.Key, 80))
	case len(p.Content) > maxReplyBytes:
		return invalid("the reply has %d bytes and %d are the most", len(p.Content), maxReplyBytes)
	case p.Action != turn.ReplyAccept || w.Inquiry != nil && w.Inquiry.URL != "":
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
