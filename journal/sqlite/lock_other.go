//go:build !unix

package sqlite

import "context"

// lockFile does nothing on systems without flock. On these, two processes must not create or upgrade a journal at the
// same moment: the loser of the race gets an error, and finds the journal ready when it tries again.
func lockFile(context.Context, string) (unlock func(), err error) { return func() {}, nil }
