package journal

import (
	"errors"
	"fmt"
)

// Errors that callers tell apart. Every other error means that the store is unavailable or broken.
var (
	// ErrNotFound: no such session, turn, call, blob or catalogue.
	ErrNotFound = errors.New("not found in the journal")
	// ErrConflict: the expected head is not the session's head, or a tool is not what the operator saw: somebody else has
	// written.
	ErrConflict = errors.New("somebody else has changed it meanwhile")
	// ErrClosed: the turn is settled and takes no more work.
	ErrClosed = errors.New("the turn is closed")
	// ErrStale: a newer attempt has taken over; this one's output is not taken.
	ErrStale = errors.New("a newer attempt has taken over")
	// ErrUnapproved: the call needs a person's word for exactly these arguments, and the journal has none.
	ErrUnapproved = errors.New("nobody has approved this call")
	// ErrForkPoint: the session cannot be forked there; the error says where it can.
	ErrForkPoint = errors.New("the session cannot be forked there")
	// ErrExists: there is a session of this name.
	ErrExists = errors.New("the session exists")
	// ErrTaken: the session, by its name, is another tenant's. Nothing of it is told, and nothing is written to it.
	ErrTaken = errors.New("it is another tenant's")
	// ErrUnavailable: the journal's database cannot be reached, or another process holds it. Trying again may help.
	ErrUnavailable = errors.New("the journal is unavailable")
	// ErrReplaced: the journal's file was deleted or replaced while it was open. What this process would write is lost
	// with it: the process must end.
	ErrReplaced = errors.New("the journal was deleted or replaced while it was open")
	// ErrNewer: the database was written by a newer version of Everturn.
	ErrNewer = errors.New("the journal was written by a newer version")
)

// TooLargeError reports content that is larger than its reader takes. It was not loaded.
type TooLargeError struct {
	Seq int64 // the message with which a window exceeds Max; 0 for a message that is not in the transcript yet
	Max int64 // bytes
}

func (e *TooLargeError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("the message is over %d bytes", e.Max)
	}
	return fmt.Sprintf("with message %d, the messages are over %d bytes", e.Seq, e.Max)
}
