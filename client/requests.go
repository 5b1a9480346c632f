package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// PendingInput selects pending requests.
type PendingInput struct {
	// Session selects the requests of a session and of the subagents that work for it; empty selects those of all
	// sessions of the tenant.
	Session string
	// Turn selects the requests of a turn and of the subagents whose answers it waits for. Session and Limit are ignored
	// then.
	Turn  string
	Limit int // the maximum to return; 0 means 100
}

// Pending returns the requests that turns wait for, the oldest first: approvals of tool calls with their exact
// arguments, questions of the model, and elicitations of MCP servers. A subagent's request names the session of the
// subagent: send the decision to that session.
//
// Errors: ErrNotFound if PendingInput names a turn that no worker has begun, and those of the journal.
func (c *Client) Pending(ctx context.Context, in PendingInput) ([]turn.Request, error) {
	if c.journal == nil {
		return nil, ErrNoJournal
	}
	if in.Turn == "" {
		if in.Limit == 0 {
			in.Limit = 100
		}
		return c.journal.PendingRequests(ctx, in.Session, in.Limit)
	}
	return c.journal.PendingOfTurn(ctx, in.Turn)
}

// DecideInput is a decision about a pending request.
type DecideInput = workflows.DecideInput

// Decide sends the decision about a pending request to its turn. Which fields of the input it needs depends on the kind
// of the request; Approve, Deny, Answer and Respond are the same for one kind. If the content of a response does not
// match the schema of its elicitation, the server does not get it: the turn makes the request again.
//
// It returns the decision that was recorded, and those of the calls that are allowed because of DecideInput.Covered,
// all without a Response. No call of a step runs before all its approvals have a decision.
//
// Repeating a decision about an approval changes nothing.
//
// Errors: ErrNotRunning, ErrNotPending, ErrAlreadyDecided (a *DecidedError with the decision that stands), ErrExpired,
// ErrArgumentsChanged, ErrInvalid (the grant is not allowed, or the fields do not fit the request), ErrNoWorker,
// ErrUnreachable.
func (c *Client) Decide(ctx context.Context, in DecideInput) (decided []turn.Decision, err error) {
	in.Version = workflows.WireVersion
	if in.Text, in.Blob, err = c.storeLongText(ctx, in.Text, in.Blob); err != nil {
		return nil, err
	}
	for pause := firstPause; ; pause *= 2 {
		err = c.update(ctx, in.Session, workflows.DecideUpdate, in, &decided)
		if !errors.Is(err, ErrNotPending) || pause > lastPause || pause > firstPause && !c.isPending(ctx, in) {
			return decided, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// The pauses before a decision is sent again that the turn does not know the request of. A worker that has just taken
// over the turn may handle the update before its replay has reached the request. The turn will know it soon if the
// journal has it as pending.
const firstPause, lastPause = 50 * time.Millisecond, 3 * time.Second

// isPending reports whether the journal has the request of a decision as pending.
func (c *Client) isPending(ctx context.Context, in DecideInput) bool {
	pending, err := c.Pending(ctx, PendingInput{Session: in.Session, Turn: in.Turn})
	return err == nil && slices.ContainsFunc(pending, func(r turn.Request) bool {
		return r.ID == in.Request && r.Session == in.Session
	})
}

// Approve allows a tool call, with the arguments that the caller has seen.
func (c *Client) Approve(ctx context.Context, in DecideInput) ([]turn.Decision, error) {
	in.Allow = true
	return c.Decide(ctx, in)
}

// Deny denies a tool call: the model gets the outcome "denied" with the reason.
func (c *Client) Deny(ctx context.Context, in DecideInput) ([]turn.Decision, error) {
	in.Allow = false
	return c.Decide(ctx, in)
}

// Answer answers a question of the model.
func (c *Client) Answer(ctx context.Context, in DecideInput) error {
	_, err := c.Decide(ctx, in)
	return err
}

// Respond responds to an elicitation of an MCP server.
func (c *Client) Respond(ctx context.Context, in DecideInput) error {
	_, err := c.Decide(ctx, in)
	return err
}
