package journal

import "fmt"

// SchemaVersion is the version of the schema that this program writes. A journal with a newer schema records in
// min_program the lowest SchemaVersion that a program must have, so that older workers can continue during a rollout.
const SchemaVersion = 1

// CheckSchema returns an error that wraps ErrNewer if a journal with this min_program needs a newer program.
func CheckSchema(minProgram int) error {
	if minProgram <= SchemaVersion {
		return nil
	}
	return fmt.Errorf("%w: it is for programs of schema version %d, and this program's is %d: use the newer program, or "+
		"another journal",
		ErrNewer, minProgram, SchemaVersion)
}
