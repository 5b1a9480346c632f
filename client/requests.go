package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/everturn/everturn/journal"
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
func (c *Client) Pending(ctx context.Context, in PendingInput) ([]journal.RequestRecord, error) {
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

// DecideInput is a decision on a tool call that waits for an approval. The first four fields are those of a Request,
// or of a turn.Event, its turn.RequestEvent and its session.
type DecideInput struct {
	Session string
	Turn    string // empty: the running one
	Call    string // Request.ID, for instance "2.0"
	// ArgumentsHash is the hash in the request. The decision applies to exactly these arguments.
	ArgumentsHash string
	By            string // recorded with the decision, at most 120 bytes
	Reason        string // recorded, at most 1000 bytes; the model is told why a call is denied
	// Grant also permits later calls of the session without a request: with exactly these arguments, to the same host, or
	// with any. For Approve only. turn.Request.Grants reports which grants a request allows.
	Grant turn.GrantScope
	// ChangedPlan replaces the plan of a request whose tool is plan.Tool, as JSON of a plan.Plan. For Approve only.
	ChangedPlan json.RawMessage
	// Covered also allows the turn's pending calls that the grant makes unnecessary to ask about. It needs a journal.
	Covered bool
}

// DecideResult acknowledges a decision.
type DecideResult struct {
	Turn string // the turn that will carry it out
	// Pending is how many calls of the same step have no decision yet: none of them runs before all are decided.
	Pending int
	Covered []string // the calls that are allowed because of DecideInput.Covered
}

// Approve allows a tool call, with the arguments that the caller has seen. Approving it again changes nothing.
//
// Errors: ErrNotRunning, ErrNotPending, ErrAlreadyDecided (a *DecidedError with the decision that stands), ErrExpired,
// ErrArgumentsChanged, ErrInvalid (the grant is not allowed), ErrNoWorker, ErrUnreachable.
func (c *Client) Approve(ctx context.Context, in DecideInput) (DecideResult, error) {
	covers := in.Covered && in.Grant != ""
	if covers && c.journal == nil {
		return DecideResult{}, ErrNoJournal
	}
	result, err := c.decide(ctx, in, true)
	if err == nil && covers {
		err = c.approveCovered(ctx, in, &result)
	}
	return result, err
}

// approveCovered allows the pending calls of the turn that the grant of the approval in covers. It adds them to result.
func (c *Client) approveCovered(ctx context.Context, in DecideInput, result *DecideResult) error {
	all, err := c.journal.Requests(ctx, result.Turn)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(r journal.RequestRecord) bool { return r.ID == in.Call })
	if i < 0 {
		return nil // cannot happen: a turn records its requests in the journal before it takes decisions
	}
	approved := all[i].Request
	for _, other := range all {
		if other.Decision != nil || !approved.Covers(in.Grant, other.Request) {
			continue
		}
		in.Turn, in.Call, in.ArgumentsHash = result.Turn, other.ID, other.ArgumentsHash
		decided, err := c.decide(ctx, in, true)
		switch {
		case errors.Is(err, ErrNotPending), errors.Is(err, ErrAlreadyDecided), errors.Is(err, ErrExpired),
			errors.Is(err, ErrNotRunning): // settled meanwhile
		case err != nil:
			return fmt.Errorf("allowing call %s, which the grant of call %s covers: %w", other.ID, approved.ID, err)
		default:
			result.Pending, result.Covered = decided.Pending, append(result.Covered, other.ID)
		}
	}
	return nil
}

// Deny denies a tool call: the model gets the outcome "denied" with the reason. Denying it again changes nothing.
//
// Errors: those of Approve.
func (c *Client) Deny(ctx context.Context, in DecideInput) (DecideResult, error) {
	return c.decide(ctx, in, false)
}

// decide sends the decision on a tool call to its turn: allow it, or deny it.
func (c *Client) decide(ctx context.Context, in DecideInput, allow bool) (DecideResult, error) {
	var res workflows.ApprovalResult
	err := c.update(ctx, in.Session, workflows.ApproveUpdate, workflows.Approval{
		Version: workflows.WireVersion, Turn: in.Turn, Call: in.Call, Allow: allow, ArgumentsHash: in.ArgumentsHash,
		By: in.By, Reason: in.Reason, Grant: in.Grant, ChangedPlan: in.ChangedPlan,
	}, &res)
	return DecideResult{Turn: res.Turn, Pending: res.Pending}, err
}

// AnswerInput answers a question of the model.
type AnswerInput struct {
	Session  string
	Turn     string // empty: the running one
	Question string // the ID of the request, for instance "q2"
	Text     string
	By       string // recorded with the answer, at most 120 bytes
}

// Answer answers a question of the model. The text becomes a user message of the turn.
//
// Errors: ErrNotRunning, ErrNotPending, ErrAlreadyDecided (a *DecidedError), ErrExpired, ErrInvalid (the text is
// empty or too long), ErrNoWorker, ErrUnreachable.
func (c *Client) Answer(ctx context.Context, in AnswerInput) error {
	text, blob, err := c.storeLongText(ctx, in.Text, "")
	if err != nil {
		return err
	}
	return c.answer(ctx, in.Session, workflows.Answer{
		Turn: in.Turn, Question: in.Question, Text: text, Blob: blob, By: in.By,
	})
}

// RespondInput responds to an elicitation of an MCP server.
type RespondInput struct {
	Session string
	Turn    string // empty: the running one
	Request string // the ID of the request, for instance "e2.0.1"
	// Response accepts with a JSON object of the requested fields, declines or cancels. Its Key may be left out.
	Response turn.ElicitationResponse
	By       string // recorded with the response, at most 120 bytes
}

// Respond responds to an elicitation. If the content does not match the server's schema, the server does not get it:
// the turn makes the request again.
//
// Errors: those of Answer; ErrInvalid if the response has another action, or no JSON object of at most 64 KiB.
func (c *Client) Respond(ctx context.Context, in RespondInput) error {
	return c.answer(ctx, in.Session, workflows.Answer{
		Turn: in.Turn, Question: in.Request, Response: &in.Response, By: in.By,
	})
}

func (c *Client) answer(ctx context.Context, session string, a workflows.Answer) error {
	a.Version = workflows.WireVersion
	return c.update(ctx, session, workflows.AnswerUpdate, a, &workflows.AnswerResult{})
}
