package attempt

import (
	"errors"
	"fmt"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// AsTurnError converts an error, which must not be nil, to a turn.Error, with a code and a message for users. An error
// that it does not know counts as an unavailable journal.
func AsTurnError(err error) *turn.Error {
	var e *turn.Error
	var large *journal.TooLargeError
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, journal.ErrConflict):
		return turn.NewError(turn.CodeSessionBusy, err,
			"another turn has written to this session; what was done is kept: ask again")
	case errors.Is(err, journal.ErrClosed):
		return turn.NewError(turn.CodeSessionBusy, err,
			"this turn was closed by a later one of its session; what was done is kept")
	case errors.Is(err, journal.ErrStale):
		return turn.NewError(turn.CodeWorkerUnavailable, err, "a newer attempt is running")
	case errors.Is(err, journal.ErrBehind):
		return turn.NewError(turn.CodeJournalUnavailable, err,
			"the journal lacks what this turn recorded before: it was restored to an earlier moment, or is another one; "+
				"restore a later copy and the turn continues, or stop the turn")
	case errors.Is(err, journal.ErrNotFound):
		return turn.NewError(turn.CodeInternal, err,
			"the journal does not have the data that the turn refers to; check that this worker uses the right journal")
	case errors.Is(err, journal.ErrUnapproved):
		return turn.NewError(turn.CodePolicyDenied, err, "the call was not approved with these arguments; it was not run")
	case errors.As(err, &large):
		return turn.NewError(turn.CodeLLMRejected, err, tooLarge(large))
	case errors.Is(err, journal.ErrReplaced):
		return turn.NewError(turn.CodeJournalUnavailable, err,
			"the journal was deleted or replaced while the worker ran: restore it and start the worker again")
	case errors.Is(err, journal.ErrNewer):
		return turn.NewError(turn.CodeConfigInvalid, err, "the journal was written by a newer version; update this worker")
	}
	return turn.NewError(turn.CodeJournalUnavailable, err, "the journal is not available: check its disk or its server")
}

// BehindIfMissing returns err, wrapped in journal.ErrBehind if it is an ErrNotFound. It is for reads of what the turn
// has recorded before: if that is missing, the journal was restored from an older copy.
func BehindIfMissing(err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return fmt.Errorf("%w: %w", journal.ErrBehind, err)
	}
	return err
}

// tooLarge returns the error message about a message or prompt over the limit, with what the user can do about it.
func tooLarge(e *journal.TooLargeError) string {
	if e.Seq == 0 { // a message that is not in the transcript yet
		return fmt.Sprintf("the message is over %d MiB: send a shorter one", e.Max>>20)
	}
	return fmt.Sprintf(
		"the prompt is over %d MiB, which no model accepts: fork the session before message %d, or start another one",
		e.Max>>20, e.Seq)
}
