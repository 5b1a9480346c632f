package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// tx is a transaction that writes.
type tx struct {
	querier
	Changed map[Topic]bool // the topics to notify
}

// write runs fn in one transaction, which is committed if fn returns nil and rolled back otherwise. fn may run more
// than once. After the commit, write notifies the followers of the topics in tx.Changed. doing is the context of the
// error: "<doing>: …".
func (db *DB) write(ctx context.Context, doing string, fn func(*tx) error) error {
	var t *tx
	if err := checkTenant(db.tenant); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	err := db.db.Write(ctx, func(c Conn) error {
		t = &tx{db.querier(c), map[Topic]bool{}}
		return fn(t)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, db.db.Explain(err))
	}
	if len(t.Changed) > 0 {
		db.db.Notify(slices.Collect(maps.Keys(t.Changed))...)
	}
	return nil
}

// writeTurn is write for a transaction about one turn. It locks the turn's session first, so that transactions of a
// session run one after the other.
func (db *DB) writeTurn(ctx context.Context, turnID, doing string, fn func(*tx) error) error {
	return db.write(ctx, doing, func(t *tx) error {
		err := t.LockRow(`SELECT 1 FROM sessions WHERE id = (SELECT session FROM turns WHERE turn_id = ?)`, turnID)
		if err != nil {
			return err
		}
		return fn(t)
	})
}

// writeScope is writeTurn for an fn that needs the turn's scope. It returns an error if the turn does not exist
// (ErrNotFound) or belongs to another session than the named one.
func (db *DB) writeScope(ctx context.Context, turnID, session, doing string, fn func(*tx, scope) error) error {
	return db.writeTurn(ctx, turnID, doing+" turn "+turnID, func(t *tx) error {
		sc, err := t.Scope(turnID)
		if err == nil {
			err = sc.Check(session)
		}
		if err != nil {
			return err
		}
		return fn(t, sc)
	})
}

// LockSession locks a session, if it exists.
func (t *tx) LockSession(session string) error {
	return t.LockRow(`SELECT 1 FROM sessions WHERE tenant = ? AND session_id = ?`, t.Tenant, session)
}

// LockRow locks the row that a query finds until the transaction ends. It does nothing if the database has one writer
// at a time.
func (t *tx) LockRow(query string, args ...any) error {
	if t.Lock() == "" {
		return nil
	}
	return t.Exec(query+t.Lock(), args...)
}

// read runs fn on one snapshot. fn may run more than once. doing is the context of the error: "<doing>: …".
func (db *DB) read(ctx context.Context, doing string, fn func(querier) error) error {
	return db.readSnapshot(ctx, false, doing, fn)
}

// readOnce is read for an fn that must not run again, because its output cannot be written twice.
func (db *DB) readOnce(ctx context.Context, doing string, fn func(querier) error) error {
	return db.readSnapshot(ctx, true, doing, fn)
}

// readSnapshot is read or, if once is true, readOnce.
func (db *DB) readSnapshot(ctx context.Context, once bool, doing string, fn func(querier) error) error {
	err := checkTenant(db.tenant)
	if err == nil {
		err = db.db.Read(ctx, once, func(c Conn) error { return fn(db.querier(c)) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, db.db.Explain(err))
	}
	return nil
}

// get returns what fn reads from one snapshot. fn may run more than once.
func get[V any](ctx context.Context, db *DB, doing string, fn func(querier) (V, error)) (out V, err error) {
	err = db.read(ctx, doing, func(q querier) (err error) {
		out, err = fn(q)
		return err
	})
	return out, err
}

// getOfTurn is get for an fn that needs the scope of a turn of any tenant: see querier.Scope.
func getOfTurn[V any](ctx context.Context, db *DB, turnID, doing string,
	fn func(querier, scope) (V, error)) (V, error) {
	return get(ctx, db, doing+" of turn "+turnID, func(q querier) (out V, err error) {
		sc, err := q.Scope(turnID)
		if err != nil {
			return out, err
		}
		return fn(q, sc)
	})
}

// getOfNamedTurn is get for an fn that needs the scope of a turn of the tenant: see querier.NamedScope.
func getOfNamedTurn[V any](ctx context.Context, db *DB, turnID, doing string,
	fn func(querier, scope) (V, error)) (V, error) {
	return get(ctx, db, doing+" of turn "+turnID, func(q querier) (out V, err error) {
		sc, err := q.NamedScope(turnID)
		if err != nil {
			return out, err
		}
		return fn(q, sc)
	})
}

// getOfSession is get for an fn that needs the row of a session of the tenant.
func getOfSession[V any](ctx context.Context, db *DB, session, doing string,
	fn func(q querier, session int64) (V, error)) (V, error) {
	return get(ctx, db, fmt.Sprintf("%s of %q", doing, session), func(q querier) (out V, err error) {
		n, err := q.SessionRow(session)
		if err != nil {
			return out, err
		}
		return fn(q, n)
	})
}
