package journal

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers distinguish. Every other error means that the journal is unavailable or broken.
var (
	// ErrNotFound: the session, turn, call, blob or catalogue does not exist.
	ErrNotFound = errors.New("not found in the journal")
	// ErrConflict: the expected head is not the session's head, or a tool is not the one that the operator saw, because
	// another writer has changed it.
	ErrConflict = errors.New("another writer has changed it")
	// ErrClosed: the turn is settled and takes no more work.
	ErrClosed = errors.New("the turn is closed")
	// ErrStale: a newer attempt has taken over, and the output of this one is discarded.
	ErrStale = errors.New("a newer attempt has taken over")
	// ErrOpen: the call has no outcome yet.
	ErrOpen = errors.New("the call has no outcome yet")
	// ErrUnapproved: the call needs a decision that allows exactly these arguments, and the journal has none.
	ErrUnapproved = errors.New("the call is not approved")
	// ErrForkPoint: the session cannot be forked at this message; the error text names the nearest points.
	ErrForkPoint = errors.New("the session cannot be forked there")
	// ErrInvalid: the input is invalid; the error text says why.
	ErrInvalid = errors.New("invalid input")
	// ErrExists: a session of this name exists.
	ErrExists = errors.New("the session exists already")
	// ErrOtherTenant: an export belongs to another tenant than the importer.
	ErrOtherTenant = errors.New("the export belongs to another tenant")
	// ErrUnavailable: the journal's database cannot be reached, another process has locked it, or its disk is full or
	// reports errors. A retry may help.
	ErrUnavailable = errors.New("the journal is unavailable")
	// ErrReadOnly: the journal can only be read.
	ErrReadOnly = errors.New("the journal is read-only")
	// ErrReplaced: the journal's file was deleted or replaced while it was open. Whatever this process still writes is
	// lost with the old file: the process must end.
	ErrReplaced = errors.New("the journal was deleted or replaced while it was open")
	// ErrBehind: the journal lacks what the turn recorded in it before: it was restored to an earlier moment, or is
	// another journal.
	ErrBehind = errors.New("the journal lacks what the turn recorded before")
	// ErrSealed: the journal is encrypted and was opened without keys, or the other way round.
	ErrSealed = errors.New("the journal's encryption is not the configured one")
	// ErrNewer: the database was written by a newer version of Everturn.
	ErrNewer = errors.New("the journal was written by a newer version")
)

// AwayError is the error of an operation that has found the journal's database unavailable, or was not tried because
// the database is known to be. It wraps ErrUnavailable.
type AwayError struct {
	Since time.Time       // when the outage began: the first failure
	Retry time.Duration   // how long to wait before the operation is tried again
	Back  <-chan struct{} // closed when an operation of this process has succeeded again
	Cause error           // the latest failure
}

func (e *AwayError) Error() string { return e.Cause.Error() }

// Unwrap makes the error an ErrUnavailable.
func (e *AwayError) Unwrap() []error { return []error{e.Cause, ErrUnavailable} }

// TooLargeError is the error of a read whose content exceeds the bound of its caller. The content was not loaded.
type TooLargeError struct {
	Seq int64 // the first message of a range that exceeds Max; 0 if the content is no message of the transcript
	Max int64 // the bound in bytes
}

func (e *TooLargeError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("the message exceeds %d bytes", e.Max)
	}
	return fmt.Sprintf("with message %d, the messages exceed %d bytes", e.Seq, e.Max)
}
