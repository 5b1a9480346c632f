package journal

import (
	"context"
	"time"

	"github.com/everturn/everturn/internal/outage"
)

// maxPause bounds the pause before a transaction tests again whether an unavailable database is back.
const maxPause = 15 * time.Second

// The kinds of transactions, whose outages are tracked separately: on a full or read-only disk, reads succeed.
const (
	writes = "write"
	reads  = "read"
)

// guarded is a Database with a circuit breaker. While the database is unavailable, one transaction of each kind at a
// time tests whether it is back; the others fail at once with an AwayError.
type guarded struct {
	Database
	outages *outage.Outages
}

// Guarded returns the journal with a guard against outages of its database, for a process that runs many turns. While
// the database is unavailable, one write and one read at a time test whether it is back. All others fail at once with
// an AwayError, so that they do not all wait for their timeouts.
func (db *DB) Guarded() *DB {
	copied := *db
	copied.db = guarded{db.db, outage.New(maxPause)}
	return &copied
}

// Write implements Database. It fails at once while writes wait for the end of an outage: see guarded.
func (g guarded) Write(ctx context.Context, fn func(Conn) error) error {
	available, err := g.try(ctx, writes, func() error { return g.Database.Write(ctx, fn) })
	if available { // then reads are possible too, and need not wait for their next try
		g.outages.Insist(reads).Up()
	}
	return err
}

// Read implements Database. It fails at once while reads wait for the end of an outage: see guarded.
func (g guarded) Read(ctx context.Context, once bool, fn func(Conn) error) error {
	_, err := g.try(ctx, reads, func() error { return g.Database.Read(ctx, once, fn) })
	return err
}

// awayError returns the AwayError of an outage.
func awayError(w outage.Wait) error {
	return &AwayError{Since: w.Since, Retry: w.For, Back: w.Back, Cause: w.Cause}
}

// try runs a transaction, unless transactions of its kind have to wait for the end of an outage. available means that
// the database has answered, with success or an error of the transaction. An error after the end of ctx says nothing
// about the database.
func (g guarded) try(ctx context.Context, kind string, transaction func() error) (available bool, err error) {
	request, wait := g.outages.Begin(kind, false)
	if wait != nil {
		return false, awayError(*wait)
	}
	defer request.Drop() // has no effect after Up or Down
	err = transaction()
	switch {
	case err == nil, ctx.Err() == nil && !g.Away(err):
		request.Up()
		return true, err
	case ctx.Err() != nil:
		return false, err
	}
	return false, awayError(request.Down(err, 0))
}
