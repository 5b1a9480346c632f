package tables

import (
	"context"
	"time"

	"github.com/everturn/everturn/internal/outage"
	"github.com/everturn/everturn/journal/record"
)

// maxPause bounds the pause before a database that is away is asked again.
const maxPause = 15 * time.Second

// The kinds of transactions. On a full or read-only disk, reads succeed.
const (
	writes = "write"
	reads  = "read"
)

// guarded is a database that is left alone while it is away. One transaction of each kind at a time asks whether it is
// back; the others fail at once.
type guarded struct {
	Database
	outages *outage.Outages
}

// Guarded returns the journal with a guard against outages of its database. The error of a transaction that finds it
// away, or that is not tried because it is, wraps a *record.AwayError.
func (h *Handle) Guarded() *Handle {
	of := *h
	of.db = guarded{h.db, outage.New(maxPause)}
	return &of
}

// Write implements Database.
func (g guarded) Write(ctx context.Context, fn func(Conn) error) error {
	answered, err := g.try(ctx, writes, func() error { return g.Database.Write(ctx, fn) })
	if answered {
		g.outages.Insist(reads).Up()
	}
	return err
}

// Read implements Database.
func (g guarded) Read(ctx context.Context, once bool, fn func(Conn) error) error {
	_, err := g.try(ctx, reads, func() error { return g.Database.Read(ctx, once, fn) })
	return err
}

func awayError(w outage.Wait) error {
	return &record.AwayError{Since: w.Since, Retry: w.For, Back: w.Back, Cause: w.Cause}
}

// try runs a transaction and reports whether the database has answered.
func (g guarded) try(ctx context.Context, kind string, transaction func() error) (answered bool, err error) {
	try, away := g.outages.Begin(kind)
	if away != nil {
		return false, awayError(*away)
	}
	defer try.Drop()
	err = transaction()
	switch {
	case err == nil, ctx.Err() == nil && !g.Away(err):
		try.Up()
		return true, err
	case ctx.Err() != nil: // its caller has ended it
		return false, err
	}
	return false, awayError(try.Down(err, 0))
}
