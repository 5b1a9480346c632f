package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// SettleInput is the result of a call that a client has run: one of turn.UserMessage.ClientTools, or a client tool of
// the configuration.
type SettleInput struct {
	Session, Turn string
	Call          string // turn.ToolCall.ID, for instance "2.0"; it is also turn.Request.Call
	Text          string // what the model gets, at most 8 MiB; runtime.max_result_bytes bounds what it sees at once
	Failed        bool   // the tool returned an error, which Text describes
	By            string // recorded with the result, up to 120 bytes
}

// Settled says what became of a result.
type Settled struct {
	// Late means that the turn did not wait for the call any more: the request had expired, or the turn was stopped. The
	// model gets the result as a notice in the session's next inference.
	Late bool `json:"late,omitempty"`
}

// SettleCall sends the result of a call that a client has run to its turn, which has waited for it: see Pending for the
// calls that wait, which are requests of kind turn.RequestResult. The first result counts; the same one may be sent
// again.
//
// Errors: ErrNotFound (the turn has handed out no such call), ErrAlreadyDecided (a *DecidedError if the decision that
// stands is known), ErrNotRunning (the turn was ended from outside), ErrInvalid, ErrNoJournal, ErrNoWorker,
// ErrUnreachable.
func (c *Client) SettleCall(ctx context.Context, in SettleInput) (Settled, error) {
	if c.journal == nil {
		return Settled{}, ErrNoJournal
	}
	result := turn.ClientResult{Failed: in.Failed}
	var err error
	if result.Text, result.Blob, err = c.storeResult(ctx, in.Text); err != nil {
		return Settled{}, err
	}
	response, err := result.Response()
	if err != nil {
		return Settled{}, fmt.Errorf("encoding the result: %w", err)
	}
	decision := DecideInput{Version: workflows.WireVersion, Session: in.Session, Turn: in.Turn,
		Request: turn.ResultRequest(in.Call), By: in.By, Response: response}
	for pause := firstPause; ; pause *= 2 {
		refusal := c.update(ctx, in.Session, workflows.DecideUpdate, decision, new([]turn.Decision))
		waits := errors.Is(refusal, ErrNotPending) || errors.Is(refusal, ErrNotRunning) || errors.Is(refusal, ErrExpired)
		if !waits {
			return Settled{}, refusal
		}
		settled, err := c.settleLate(ctx, in, *response)
		if !errors.Is(err, journal.ErrOpen) {
			return settled, err
		}
		// The turn has not opened the request yet, or is about to end.
		if pause > lastPause || errors.Is(refusal, ErrNotRunning) {
			return Settled{}, refusal
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return Settled{}, ctx.Err()
		}
	}
}

// maxInlineResult is the longest result that a decision contains, in bytes of JSON.
const maxInlineResult = turn.MaxResponseBytes / 2

// storeResult returns the text of a result, or stores it in the journal and returns its hash if it is long.
func (c *Client) storeResult(ctx context.Context, text string) (inline, blob string, err error) {
	if len(text) > journal.MaxMessageBytes {
		return "", "", fmt.Errorf("%w: the result is %d bytes; the maximum is %d", ErrInvalid, len(text),
			journal.MaxMessageBytes)
	}
	if encoded, err := json.Marshal(text); err == nil && len(encoded) <= maxInlineResult {
		return text, "", nil
	}
	if blob, err = c.journal.PutBlob(ctx, "text/plain", []byte(text)); err != nil {
		return "", "", fmt.Errorf("writing the result to the journal: %w", err)
	}
	return "", blob, nil
}

// settleLate records a result for which the turn does not wait. The error is journal.ErrOpen if the call has no outcome
// yet.
func (c *Client) settleLate(ctx context.Context, in SettleInput, response turn.ElicitationResponse) (Settled, error) {
	whole := printable.Sanitize(in.Text)
	r := turn.ToolResult{Outcome: turn.OutcomeOK, FromServer: true, Taints: true, SizeBytes: int64(len(in.Text))}
	if in.Failed {
		r.Outcome = turn.OutcomeError
	}
	var cut bool
	if r.Text, cut = printable.Cut(whole, maxLateText); cut {
		r.Full, r.MediaType = []byte(whole), "text/plain; charset=utf-8"
	}
	late, err := c.journal.SettleLate(ctx, in.Session, in.Turn, in.Call, r, response, time.Now())
	if !errors.Is(err, journal.ErrConflict) {
		return Settled{Late: late}, err
	}
	stands, err := c.decisionOf(ctx, in.Turn, turn.ResultRequest(in.Call))
	if err != nil {
		return Settled{}, err
	}
	return Settled{}, &DecidedError{Decision: stands, refusal: turn.NewError(turn.CodeNotWaiting, nil,
		fmt.Sprintf("call %s already has another result; the first one stands", turn.Truncate(in.Call, 40)))}
}

// maxLateText bounds the text of a late result in its notice, in bytes. The whole text is an artifact.
const maxLateText = 64 << 10

// decisionOf returns the decision about a request of a turn, without its response.
func (c *Client) decisionOf(ctx context.Context, turnID, request string) (turn.Decision, error) {
	list, err := c.journal.Requests(ctx, turnID)
	for _, r := range list {
		if r.ID == request && r.Decision != nil {
			r.Decision.Response = nil
			return *r.Decision, nil
		}
	}
	return turn.Decision{ID: request}, err
}
