package journal

import (
	"context"
	"fmt"
	"math"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/workflows/turn"
)

// Turn returns the tenant's turn with this ID.
func (db *DB) Turn(ctx context.Context, turnID string) (TurnRecord, error) {
	return tables.Get(ctx, db.tables, "reading turn "+turnID,
		func(q querier) (TurnRecord, error) { return q.NamedTurn(turnID) })
}

// TurnConfig returns the turn config that Begin recorded, and the turn's session, tenant and state. The turn may
// belong to any tenant. ErrNotFound if the turn does not exist.
func (db *DB) TurnConfig(ctx context.Context, turnID string) (out TurnConfig, err error) {
	err = db.tables.Read(ctx, "reading the configuration of turn "+turnID, func(q querier) error {
		var config tables.Stored
		err := q.Row(`SELECT s.session_id, s.tenant, t.state, t.config, t.config_blob FROM turns t
			JOIN sessions s ON s.id = t.session
			WHERE t.turn_id = ?`, turnID).Scan(&out.Session, &out.Tenant, &out.State, &config.Inline, &config.Blob)
		if err != nil {
			return err
		}
		out.Config, err = q.GetJSON(config)
		return err
	})
	return out, err
}

// Session returns the tenant's session with this ID.
func (db *DB) Session(ctx context.Context, id string) (SessionRecord, error) {
	return tables.Get(ctx, db.tables, fmt.Sprintf("reading session %q", id),
		func(q querier) (SessionRecord, error) { return q.Session(id) })
}

// Sessions returns at most limit sessions of the tenant, the most recently updated first.
func (db *DB) Sessions(ctx context.Context, limit int) ([]SessionRecord, error) {
	return tables.Get(ctx, db.tables, "listing the sessions", func(q querier) ([]SessionRecord, error) {
		return tables.Collect(q, tables.ScanSession,
			tables.SessionQuery+`WHERE s.tenant = ? ORDER BY s.updated_at DESC, s.id DESC LIMIT ?`,
			q.Tenant, limit)
	})
}

// Turns returns the session's turns in the order in which they began.
func (db *DB) Turns(ctx context.Context, session string) ([]TurnRecord, error) {
	return tables.GetOfSession(ctx, db.tables, session, "listing the turns",
		func(q querier, n int64) ([]TurnRecord, error) { return q.TurnsAfter(n, 0, math.MaxInt32) })
}

// TurnsAfter returns at most limit turns of the session that began after the named one, or from the first if after is
// empty, in the order in which they began. ErrNotFound if the session does not exist or has no turn with this ID.
func (db *DB) TurnsAfter(ctx context.Context, session, after string, limit int) ([]TurnRecord, error) {
	return tables.GetOfSession(ctx, db.tables, session, "listing the turns after "+after,
		func(q querier, n int64) (out []TurnRecord, err error) {
			var afterRow int64 // 0: from the first turn
			if after != "" {
				err = q.Row(`SELECT id FROM turns WHERE turn_id = ? AND session = ?`, after, n).Scan(&afterRow)
			}
			if err != nil {
				return nil, err
			}
			return q.TurnsAfter(n, afterRow, limit)
		})
}

// Messages returns the session's messages with from <= seq <= to, in order, with their whole text and arguments.
func (db *DB) Messages(ctx context.Context, session string, from, to int64) ([]turn.Message, error) {
	return tables.GetOfSession(ctx, db.tables, session, "reading the transcript",
		func(q querier, n int64) ([]turn.Message, error) { return q.Transcript(n, from, to, tables.Unbounded) })
}

// Window returns the messages of the turn's session with from <= seq <= to, in order, with their provider items. If
// their texts and calls exceed maxBytes, it returns a *TooLargeError without loading them. Items that exceed maxBytes
// together are left out. ErrNotFound if the turn does not exist.
func (db *DB) Window(ctx context.Context, turnID string, from, to, maxBytes int64) ([]turn.Message, error) {
	return tables.GetOfTurn(ctx, db.tables, turnID, "reading the transcript",
		func(q querier, sc scope) ([]turn.Message, error) {
			messages, err := q.Transcript(sc.Session, from, to, maxBytes)
			if err == nil {
				err = q.AddItems(sc.Session, max(from, 1), to, maxBytes, messages)
			}
			return messages, err
		})
}
