package journal

import (
	"fmt"

	"github.com/everturn/everturn/journal/record"
)

// Errors that callers distinguish: see package record. Every other error means that the journal is unavailable or
// broken.
var (
	ErrNotFound    = record.ErrNotFound
	ErrConflict    = record.ErrConflict
	ErrClosed      = record.ErrClosed
	ErrStale       = record.ErrStale
	ErrUnapproved  = record.ErrUnapproved
	ErrForkPoint   = record.ErrForkPoint
	ErrExists      = record.ErrExists
	ErrOtherTenant = record.ErrOtherTenant
	ErrUnavailable = record.ErrUnavailable
	ErrReadOnly    = record.ErrReadOnly
	ErrReplaced    = record.ErrReplaced
	ErrBehind      = record.ErrBehind
	ErrSealed      = record.ErrSealed
	ErrNewer       = record.ErrNewer
)

// TooLargeError reports content that exceeds its reader's bound.
type TooLargeError = record.TooLargeError

// AwayError means that the journal's database is unavailable: see DB.Guarded.
type AwayError = record.AwayError

// SchemaVersion is the version of the schema that this program writes. A journal with a newer schema records in
// min_program the lowest SchemaVersion that a program must have, so that older workers can continue during a rollout.
const SchemaVersion = 3

// CheckSchema returns an error that wraps ErrNewer if a journal with this min_program needs a newer program.
func CheckSchema(minProgram int) error {
	if minProgram <= SchemaVersion {
		return nil
	}
	return fmt.Errorf("%w: it is for programs of schema version %d, and this program's is %d: use the newer program, or "+
		"another journal",
		record.ErrNewer, minProgram, SchemaVersion)
}
