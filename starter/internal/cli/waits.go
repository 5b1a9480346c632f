package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/user"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

// decision is a user's decision about an approval.
type decision struct {
	allow  bool
	reason string
	always turn.GrantScope
}

// shownWhole returns an error if the journal does not have exactly the arguments that a call waits with, because it has
// lost them or a part of them. Such a call can only be denied.
func shownWhole(w journal.RequestRecord) error {
	if w.Kind != turn.RequestApproval || journal.HashOf([]byte(w.Arguments)) == w.ArgumentsHash {
		return nil
	}
	return fmt.Errorf("call %s can only be denied: the journal has %d of the %d bytes of its arguments, whose hash is not %s",
		line(w.ID, 80), len(w.Arguments), w.ArgumentsBytes, shortHash(w.ArgumentsHash))
}

// decide sends the decision to the turn. It allows a call only with the hash of the arguments that were shown, and
// denies it whatever they are.
func (t *turnClient) decide(ctx context.Context, w journal.RequestRecord, d decision) (client.DecideResult, error) {
	in := client.DecideInput{
		Session: w.Session, Turn: w.Turn, Call: w.ID, ArgumentsHash: w.ArgumentsHash, By: whoami(), Reason: d.reason, Grant: d.always,
	}
	decide := t.client.Deny
	if d.allow {
		if err := shownWhole(w); err != nil {
			return client.DecideResult{}, err
		}
		decide = t.client.Approve
	}
	r, err := decide(ctx, in)
	return r, peopleError(w, err)
}

// answer answers a question of the model.
func (t *turnClient) answer(ctx context.Context, w journal.RequestRecord, text string) error {
	return peopleError(w, t.client.Answer(ctx, client.AnswerInput{
		Session: w.Session, Turn: w.Turn, Question: w.ID, Text: text, By: whoami(),
	}))
}

// reply responds to an elicitation.
func (t *turnClient) reply(ctx context.Context, w journal.RequestRecord, r turn.ElicitationResponse) error {
	return peopleError(w, t.client.Respond(ctx, client.RespondInput{
		Session: w.Session, Turn: w.Turn, Request: w.ID, Response: r, By: whoami(),
	}))
}

// peopleError says what to do about a decision that the turn did not accept.
func peopleError(w journal.RequestRecord, err error) error {
	session := quoted(w.Session)
	var refused *turn.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrNotRunning):
		return usage("%w: the turn of session %q is over and takes no more decisions; `starter show %s` shows how it ended", err, w.Session, session)
	case errors.Is(err, client.ErrNoWorker):
		return noWorker(fmt.Sprintf("what was said about %s may count yet: Temporal has it, and gives it to the turn when a worker runs. Look at `starter show %s` before you decide again", w.ID, session))
	case !errors.As(err, &refused):
		return err
	}
	switch refused.Code {
	case turn.CodeNotWaiting, turn.CodeConfigInvalid:
		return usage("%s; `starter approve` lists what waits: %w", refused.Message, short{refused})
	case turn.CodeToolDrift:
		return fmt.Errorf("%s; look at it again with `starter approve %s`: %w", refused.Message, session, short{refused})
	case turn.CodeApprovalExpired:
		return fmt.Errorf("%s; `starter attach %s` shows how the turn goes on: %w", refused.Message, session, short{refused})
	}
	return fmt.Errorf("%s: %w", refused.Message, short{refused})
}

// short is a turn's error that prints only its code, because the surrounding error has its message.
type short struct{ refused *turn.Error }

func (s short) Error() string { return string(s.refused.Code) }
func (s short) Unwrap() error { return s.refused }

// whoami identifies the deciding user as user@host, as the operating system names both.
func whoami() string {
	name, host := "somebody", "somewhere"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return name + "@" + host
}

// rest returns the turn's chunks that are in the journal and that the follower has not seen.
func (f *follower) rest(ctx context.Context) iter.Seq2[turn.Chunk, error] {
	return func(yield func(turn.Chunk, error) bool) {
		chunks, err := f.store.Chunks(ctx, f.s.ID, f.seen, 1000)
		for _, c := range chunks {
			f.seen = c.Index
			if !yield(c, nil) {
				return
			}
		}
		if err != nil {
			yield(turn.Chunk{}, err)
		}
	}
}

// decode decodes the data of a chunk.
func decode(c turn.Chunk, into any) bool { return json.Unmarshal(c.Data, into) == nil }

// ruling describes a decision about a request.
func ruling(r turn.Decision) string {
	out := string(r.Status) + ruledBy(r)
	if r.Status == turn.StatusExpired && r.Allowed {
		out += ", and allowed by configuration"
	}
	if r.Response != nil {
		out += " (" + string(r.Response.Action) + ")"
		if len(r.Response.Content) > 0 {
			out += " with " + excerpt(terminal.Visible(string(r.Response.Content)), 200, 0)
		}
	}
	if r.Grant != "" {
		out += ", always for this " + string(r.Grant)
	}
	if r.Reason != "" {
		out += ": " + excerpt(r.Reason, 200, 0)
	}
	return out
}

// ruledBy returns the author of a decision, if it has one, and the time of the decision.
func ruledBy(r turn.Decision) string {
	who := ""
	if r.By != "" {
		who = " by " + line(r.By, 80)
	}
	return who + " at " + r.At.Local().Format(time.DateTime)
}
