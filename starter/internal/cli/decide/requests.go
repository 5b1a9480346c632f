package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

// pending returns the pending requests of these kinds in a session, without those of its subagents or, if session is
// "", in all sessions. It returns an error if the session does not exist.
func pending(ctx context.Context, t *app.TurnClient, session string,
	kinds ...turn.RequestKind) ([]client.Request, error) {
	if session != "" {
		if _, err := app.SessionArg(ctx, t.Journal, []string{session}); err != nil {
			return nil, err
		}
	}
	all, err := t.Client.Pending(ctx, client.PendingInput{Session: session, Limit: 1000})
	return slices.DeleteFunc(all, func(r client.Request) bool {
		ofSubagent := session != "" && r.Session != session
		return !slices.Contains(kinds, r.Kind) || ofSubagent
	}), err
}

// approvals returns the pending approvals of the named calls or, without calls, the session's only one, or all of them
// with --all. It returns an error if a call is not pending, or if its arguments do not have the hash of --hash.
func approvals(ctx context.Context, t *app.TurnClient, session string,
	calls []string, f decideFlags) ([]client.Request, error) {
	pending, err := pending(ctx, t, session, turn.RequestApproval)
	if err != nil {
		return nil, err
	}
	switch {
	case len(pending) == 0 && len(calls) == 0:
		return nil, app.Usage("no call of session %q waits for approval; `everturn approvals` lists the pending requests",
			session)
	case len(calls) == 0 && len(pending) > 1 && !f.all:
		return nil, app.Usage("%d calls of session %q wait for approval: name the calls (%s), or use --all", len(pending),
			session, idsOf(pending))
	case len(calls) == 0:
		return pending, checkHash(pending[0], f.hash) // a hash excludes --all, so there is one call
	}
	var chosen []client.Request
	for _, call := range calls {
		i := slices.IndexFunc(pending, func(r client.Request) bool { return r.ID == call })
		if i < 0 {
			return nil, notPending(ctx, t, session, call, pending)
		}
		if err := checkHash(pending[i], f.hash); err != nil {
			return nil, err
		}
		chosen = append(chosen, pending[i])
	}
	return chosen, nil
}

// question returns the pending question or elicitation that args names, by its session and ID. If args has no ID, there
// must be only one in the session or, if args is empty, in all sessions.
func question(ctx context.Context, t *app.TurnClient, args []string) (client.Request, error) {
	session, id := "", ""
	if len(args) > 0 {
		session = args[0]
	}
	if len(args) > 1 {
		id = args[1]
	}
	pending, err := pending(ctx, t, session, turn.RequestQuestion, turn.RequestElicitation)
	if err != nil {
		return client.Request{}, err
	}
	for _, r := range pending {
		if r.ID == id || id == "" && len(pending) == 1 {
			return r, nil
		}
	}
	switch {
	case id != "":
		err = notPending(ctx, t, session, id, pending)
	case len(pending) > 1 && session != "":
		err = app.Usage("session %q waits for %d answers: name the request (%s); `everturn approvals %s` shows them", session,
			len(pending), idsOf(pending), app.Quoted(session))
	case len(pending) > 1:
		err = app.Usage("%d requests wait for an answer: name the session; `everturn approvals` lists them", len(pending))
	case session != "":
		err = app.Usage("session %q does not wait for an answer; send it a message with `everturn send %s \"...\"`", session,
			app.Quoted(session))
	default:
		err = app.Usage("no session waits for an answer; `everturn list` lists the sessions")
	}
	return client.Request{}, err
}

// checkHash returns an error if the hash of the call's arguments does not begin with hash, the value of --hash: the
// arguments are not those that the user has seen. Without a hash it returns nil.
func checkHash(r client.Request, hash string) error {
	if hash == "" || len(hash) >= ui.HashDigits && strings.HasPrefix(r.ArgumentsHash, hash) {
		return nil
	}
	if len(hash) < ui.HashDigits {
		return app.Usage("--hash %q is too short: use at least %d digits", hash, ui.HashDigits)
	}
	return &app.ExitError{Code: app.ExitFailed,
		Cause: fmt.Errorf("nothing was decided: call %s waits with other arguments "+
			"(hash %s) than --hash %s; look at it again with `everturn approvals %s`",
			r.ID, ui.ShortHash(r.ArgumentsHash), app.Line(hash, 20), app.Quoted(r.Session))}
}

// notPending returns an error that says why the request id cannot be decided: it is decided already, or the session's
// last turn does not have it. pending are the session's pending requests, which the error names.
func notPending(ctx context.Context, t *app.TurnClient, session, id string, pending []client.Request) error {
	rec, err := t.Journal.Session(ctx, session)
	if err != nil {
		return err
	}
	requests, err := t.Journal.Requests(ctx, rec.LastTurn.ID)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return err
	}
	for _, r := range requests {
		switch {
		case r.ID != id || r.Decision == nil:
		case r.Decision.Reason == turn.ReasonCallEnded:
			return app.Usage("%s can no longer be answered: %s; `everturn show %s` shows the turn", id, turn.ReasonCallEnded,
				app.Quoted(session))
		default:
			return app.Usage("%s is already decided: %s; the first decision stands. Follow the turn with `everturn attach %s`",
				id,
				app.DecidedAt(*r.Decision), app.Quoted(session))
		}
	}
	hint := "the session has no pending request"
	if len(pending) > 0 {
		hint = "pending: " + idsOf(pending)
	}
	return app.Usage("session %q has no pending request %s; %s", session, app.Line(id, 40), hint)
}

// idsOf returns the IDs of requests, separated by commas.
func idsOf(requests []client.Request) string {
	ids := make([]string, len(requests))
	for i, r := range requests {
		ids[i] = r.ID
	}
	return strings.Join(ids, ", ")
}

// decide sends a decision about a request to its turn, with the hash of the arguments that were shown. It returns the
// ID of the request and those of the requests that the decision covers. It does not allow a call whose exact arguments
// cannot be shown; such a call can only be denied.
func decide(ctx context.Context, t *app.TurnClient, r client.Request, in client.DecideInput) (decided []string, err error) {
	if in.Allow {
		if err := ui.Exact(r); err != nil {
			return nil, err
		}
	}
	in.Session, in.Turn, in.Request, in.ArgumentsHash, in.By = r.Session, r.Turn, r.ID, r.ArgumentsHash, app.UserName()
	decisions, err := t.Client.Decide(ctx, in)
	for _, d := range decisions {
		decided = append(decided, d.ID)
	}
	return decided, decideError(r, err)
}

// answer sends the answer to a question, or the response to an elicitation.
func answer(ctx context.Context, t *app.TurnClient, r client.Request, in client.DecideInput) error {
	_, err := decide(ctx, t, r, in)
	return err
}

// decideError returns the error for a decision that the turn did not accept, with what the user can do. It returns nil
// if err is nil, and other errors unchanged.
func decideError(r client.Request, err error) error {
	session := app.Quoted(r.Session)
	var refused *turn.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrNotRunning):
		return app.Usage("%w: the turn of session %q has ended and takes no more decisions; `everturn show %s` shows the "+
			"result",
			err, r.Session, session)
	case errors.Is(err, client.ErrNoWorker):
		return app.NoWorker(err,
			fmt.Sprintf("Temporal keeps the decision on %s and delivers it when a worker runs; check `everturn "+
				"show %s` before you decide again", r.ID, session))
	case !errors.As(err, &refused):
		return err
	}
	switch refused.Code {
	case turn.CodeNotWaiting, turn.CodeInputInvalid:
		return app.Usage("%s; `everturn approvals` lists the pending requests: %w", refused.Message, codeOnly{refused})
	case turn.CodeToolDrift:
		return fmt.Errorf("%s; look at it again with `everturn approvals %s`: %w", refused.Message, session, codeOnly{refused})
	case turn.CodeApprovalExpired:
		return fmt.Errorf("%s; follow the turn with `everturn attach %s`: %w", refused.Message, session, codeOnly{refused})
	}
	return fmt.Errorf("%s: %w", refused.Message, codeOnly{refused})
}

// codeOnly is a turn's error that prints only its code, because the surrounding error has its message.
type codeOnly struct{ refused *turn.Error }

func (c codeOnly) Error() string { return string(c.refused.Code) }

func (c codeOnly) Unwrap() error { return c.refused }
