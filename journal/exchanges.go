package journal

import (
	"context"
	"time"
)

// Exchange is a request of a client over HTTP, and where in a session its answer is. A client that sends a whole
// conversation with each request, or repeats a request, is led to the session by the exchange's name.
type Exchange struct {
	Name    string // of up to 200 bytes, derived by the server from what the client has sent
	Session string
	Message string // the ID of the message that the request became
	Turn    string // the turn that took the message; empty: not known yet
	Seq     int64  // the session's last message when the turn had ended; 0: it has not
	Body    string // what else the server knows of the request: a hash of it, or of a blob; may be empty
}

// exchangeKept is how long an exchange is kept that no client comes back to.
const exchangeKept = 90 * 24 * time.Hour

// PutExchange records an exchange in the place of one with the same name. If keep is set and there is one, that one
// stays. PutExchange returns the one that is recorded.
func (db *DB) PutExchange(ctx context.Context, e Exchange, keep bool) (Exchange, error) {
	err := db.write(ctx, "recording an exchange", func(t *tx) error {
		now, err := databaseTime(t.querier)
		if err != nil {
			return err
		}
		err = t.Exec(`DELETE FROM exchanges WHERE tenant = ? AND at < ?`, t.Tenant, nanos(now.Add(-exchangeKept)))
		if err != nil {
			return err
		}
		update := `DO UPDATE SET session = excluded.session, message = excluded.message, turn = excluded.turn,
			seq = excluded.seq, body = excluded.body, at = excluded.at`
		if keep {
			update = `DO NOTHING`
		}
		err = t.Exec(`INSERT INTO exchanges (tenant, name, session, message, turn, seq, body, at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (tenant, name) `+update, t.Tenant, e.Name, e.Session, e.Message, e.Turn, e.Seq, e.Body, nanos(now))
		if err == nil {
			e, err = t.exchange(e.Name)
		}
		return err
	})
	return e, err
}

// DeleteExchange deletes the exchange of a name, if there is one.
func (db *DB) DeleteExchange(ctx context.Context, name string) error {
	return db.write(ctx, "deleting an exchange", func(t *tx) error {
		return t.Exec(`DELETE FROM exchanges WHERE tenant = ? AND name = ?`, t.Tenant, name)
	})
}

// Exchange returns the exchange of a name. ErrNotFound if there is none.
func (db *DB) Exchange(ctx context.Context, name string) (Exchange, error) {
	return get(ctx, db, "reading an exchange", func(q querier) (Exchange, error) { return q.exchange(name) })
}

// exchange returns the exchange of a name.
func (q querier) exchange(name string) (Exchange, error) {
	e := Exchange{Name: name}
	err := q.Row(`SELECT session, message, turn, seq, body FROM exchanges WHERE tenant = ? AND name = ?`, q.Tenant, name).
		Scan(&e.Session, &e.Message, &e.Turn, &e.Seq, &e.Body)
	return e, err
}
