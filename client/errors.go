package client

import (
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Errors of this package's methods, for errors.Is. An error that a turn returned also wraps a *turn.Error.
var (
	// ErrUnreachable: Temporal does not answer, or the client has no connection.
	ErrUnreachable = temporalconn.ErrUnreachable
	// ErrNoWorker: Temporal has the request and no worker answered in time. The request may still take effect; repeat it.
	ErrNoWorker = errors.New("no worker has answered in time")
	// ErrVersionLost is ErrNoWorker for a turn that is pinned to a version of which no worker runs; the message names the
	// version.
	ErrVersionLost = fmt.Errorf("%w: the turn stays on a version of the worker that does not run", ErrNoWorker)
	// ErrNotFound: neither the journal nor Temporal has such a session, turn or schedule.
	ErrNotFound = journal.ErrNotFound
	// ErrNotRunning: the session has no running turn.
	ErrNotRunning = errors.New("no turn of this session is running")
	// ErrBusy: a turn of the session is running and SendInput.Alone is set, or its queue is full.
	ErrBusy = errors.New("the session is busy")
	// ErrUndelivered: the session's workflow was ended from outside before it took the message. Send it again.
	ErrUndelivered = errors.New("the turn was ended before it took the message")
	// ErrInvalid: the input is invalid; the message says why.
	ErrInvalid = journal.ErrInvalid
	// ErrExists: the name of the new session or schedule is in use.
	ErrExists = errors.New("the name is in use")
	// ErrForkPoint: the session cannot be forked at this message; the error text says at which it can.
	ErrForkPoint = journal.ErrForkPoint
	// ErrConflict: what the request is about has changed meanwhile.
	ErrConflict = journal.ErrConflict
	// ErrUnavailable: the journal cannot be reached or is locked.
	ErrUnavailable = journal.ErrUnavailable
	// ErrReadOnly: the journal is open for reading only.
	ErrReadOnly = journal.ErrReadOnly
	// ErrNewer: the journal needs a newer program.
	ErrNewer = journal.ErrNewer
	// ErrOtherTenant: the export is of another tenant.
	ErrOtherTenant = journal.ErrOtherTenant
	// ErrNoJournal: the method needs Options.Journal.
	ErrNoJournal = errors.New("this client has no journal")
	// ErrForeign: the schedule is not one of Everturn's.
	ErrForeign = errors.New("not a schedule of Everturn")
	// ErrNotPending: the turn has no such pending request.
	ErrNotPending = errors.New("no such request is pending")
	// ErrAlreadyDecided: the request has another decision. The error is a *DecidedError.
	ErrAlreadyDecided = errors.New("the request is already decided")
	// ErrExpired: the request expired before the decision arrived.
	ErrExpired = errors.New("the request has expired")
	// ErrArgumentsChanged: the call waits with other arguments than the approval names.
	ErrArgumentsChanged = errors.New("the call has other arguments")
)

// DecidedError reports a request that another decision has settled. It is ErrAlreadyDecided.
type DecidedError struct {
	Decision turn.Decision // the decision that stands
	refusal  *turn.Error
}

// Error returns the turn's code and message, which names the decision that stands.
func (e *DecidedError) Error() string { return e.refusal.Error() }

// Unwrap returns ErrAlreadyDecided and the turn's *turn.Error.
func (e *DecidedError) Unwrap() []error { return []error{ErrAlreadyDecided, e.refusal} }

// refusalKinds maps the codes with which a turn refuses requests to errors.
var refusalKinds = map[turn.Code]error{
	turn.CodeSessionBusy:     ErrBusy,
	turn.CodeSessionEnding:   ErrBusy,
	turn.CodeConfigInvalid:   ErrInvalid,
	turn.CodeInputInvalid:    ErrInvalid,
	turn.CodeNotWaiting:      ErrNotPending,
	turn.CodeToolDrift:       ErrArgumentsChanged,
	turn.CodeApprovalExpired: ErrExpired,
}

// asClientError converts an error of Temporal's client to an error of this package, if one fits: the refusal of a turn,
// ErrNotRunning or ErrUnreachable.
func asClientError(err error) error {
	var app *temporal.ApplicationError
	var gone *serviceerror.NotFound
	switch {
	case errors.Is(err, errClosing):
		return err
	case errors.As(err, &app):
		return refusalError(app)
	case errors.As(err, &gone):
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	case isUnavailable(err):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// refusalError returns the error with which a workflow has refused a request: a *DecidedError if the refusal has the
// decision that stands, or a *turn.Error that also is the error of this package for its code, if there is one.
func refusalError(app *temporal.ApplicationError) error {
	e := turn.NewError(turn.Code(app.Type()), app, app.Message())
	var decided turn.Decision
	if e.Code == turn.CodeNotWaiting && app.HasDetails() && app.Details(&decided) == nil {
		return &DecidedError{Decision: decided, refusal: e}
	}
	if kind := refusalKinds[e.Code]; kind != nil {
		return temporalconn.WithKind(kind, e)
	}
	return e
}

// isUnavailable reports whether an error means that Temporal did not answer.
func isUnavailable(err error) bool {
	var unavailable *serviceerror.Unavailable
	var slow *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &slow)
}
