package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

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

// inquire puts what servers ask before people and waits until all of it is answered, like a question of the model: it
// costs no process, no step and no time of the turn.
func (r *run) inquire(ctx workflow.Context, flights []*flight) error {
	var waits []turn.Wait
	for _, f := range flights {
		for i, q := range f.receipt.Inquiries {
			waits = append(waits, turn.Wait{
				ID: fmt.Sprintf("e%s.%d", f.call.ID, f.asked+i+1), Kind: turn.WaitElicitation, Step: r.progress.Counters.Step,
				Tool: f.call.Tool, Call: f.call.ID, Question: turn.Cut(q.Message, maxQuestion), Inquiry: &q,
				ExpiresAt: expiry(ctx, r.progress.Pins.People.QuestionExpiry),
			})
		}
	}
	if err := r.askPeople(ctx, waits); err != nil {
		return err
	}
	rulings, err := r.collect(ctx, waits, r.progress.Pins.People.QuestionExpiry)
	if err != nil {
		return err
	}
	said := make(map[string]turn.Ruling, len(rulings))
	for _, ruling := range rulings {
		said[ruling.ID] = ruling
	}
	for _, f := range flights {
		f.replies = nil
		for _, q := range f.receipt.Inquiries {
			f.asked++
			f.replies = append(f.replies, reply(q, said[fmt.Sprintf("e%s.%d", f.call.ID, f.asked)], f.asked > maxInquiries))
		}
		f.receipt = CallResult{}
	}
	return r.goOn(ctx)
}

// reply is what a server is told. Where nobody has said anything, and where it asks without end, that is a cancel.
func reply(q turn.Inquiry, said turn.Ruling, enough bool) turn.Reply {
	if said.Reply == nil || enough {
		return turn.Reply{Key: q.Key, Action: turn.ReplyCancel}
	}
	out := *said.Reply
	out.Key = q.Key
	return out
}

// checkReply refuses what cannot be an answer to a server's question. Whether it fits the server's schema is checked
// where the schemas are; one that does not is asked for again.
func checkReply(w turn.Wait, p *turn.Reply) *turn.Error {
	switch {
	case p == nil:
		return invalid("%s asks for fields, not for a message; answer with reply {action, content}", turn.Cut(w.Tool, 80))
	case p.Action != turn.ReplyAccept && p.Action != turn.ReplyDecline && p.Action != turn.ReplyCancel:
		return invalid("the reply's action is %q; it must be accept, decline or cancel", turn.Cut(string(p.Action), 40))
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

// A server of an older protocol holds its call while it asks. Its question is put into the journal by the activity that
// carries the call and is not on the desk: the turn passes answers on, and the activity finds them.

const heldPrefix = "h"

// HeldID is the ID of the n-th question, from 1, that is asked while a call is held.
func HeldID(call string, attempt, n int) string {
	return fmt.Sprintf("%s%s.%d.%d", heldPrefix, call, attempt, n)
}

// toHeld reports whether an answer is to a question that a held call waits for.
func (r *run) toHeld(a Answer) bool {
	return strings.HasPrefix(a.Question, heldPrefix) && r.phase == turn.PhaseCallTool
}

// validateHeld rejects what cannot be passed on.
func (r *run) validateHeld(a Answer) error {
	if err := checkReply(turn.Wait{Tool: "the tool"}, a.Reply); err != nil {
		return rejected(err.Code, err.Message)
	}
	if r.stopping || a.Turn != "" && a.Turn != r.turnID {
		return rejected(turn.CodeNotWaiting, fmt.Sprintf("turn %s waits for nothing any more", turn.Cut(a.Turn, 80)))
	}
	return nil
}

// pass has the answer recorded where the held call finds it. Where the journal knows no such question, nothing follows.
func (r *run) pass(ctx workflow.Context, ruling turn.Ruling) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		in := DecideInput{Version: WireVersion, Session: r.session, Turn: r.turnID, Rulings: []turn.Ruling{ruling}}
		if _, err := r.decide(ctx, in); err != nil {
			workflow.GetLogger(ctx).Warn("passing on an answer", "turn", r.turnID, "question", ruling.ID, "error", err)
		}
	})
}
