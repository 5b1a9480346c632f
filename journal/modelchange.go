package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/everturn/everturn/workflows/turn"
)

// ChangeModel records, with the event model_changed, that a fallback takes over from the step's next attempt on, or
// that the model goes on in another mode: change.Mode. The fallback is the one at change.Position in the turn config,
// counted from 1; if it or a later one has taken over already, nothing changes. Of event, ChangeModel reads only Text
// and At. ErrStale if a newer attempt of the step runs or the step is settled, ErrClosed if the turn has ended,
// ErrNotFound if the attempt was never started.
func (db *DB) ChangeModel(ctx context.Context, key StepKey, attempt int, event turn.Event,
	change turn.ModelEvent) error {
	return db.write(ctx, stepName("changing the model of", key), func(t *tx) error {
		a, err := t.LockedAttempt(key)
		if err != nil {
			return err
		}
		if a.Inf.Settled {
			return ErrStale
		}
		if err := checkRunning(a, attempt); err != nil {
			return err
		}
		last, err := modelChange(t.querier, key)
		known := last.Position > change.Position ||
			last.Position == change.Position && (change.Mode == "" || change.Mode == last.Mode)
		if err != nil || known {
			return err
		}
		change.Step, change.Failures = key.Step, a.Inf.Failures
		event.Kind, event.Step, event.Attempt = turn.EventModelChanged, key.Step, attempt
		return t.emitData(&a.scope, event, change)
	})
}

// ModelChange returns the last change of the turn's model at the step or before it; the zero ModelEvent if there was
// none.
func (db *DB) ModelChange(ctx context.Context, key StepKey) (turn.ModelEvent, error) {
	return get(ctx, db, stepName("reading the model of", key),
		func(q querier) (turn.ModelEvent, error) { return modelChange(q, key) })
}

// modelChange is ModelChange in a transaction.
func modelChange(q querier, key StepKey) (out turn.ModelEvent, err error) {
	var data string
	err = q.Row(`SELECT c.data FROM events c JOIN turns t ON t.id = c.turn
		WHERE t.turn_id = ? AND c.kind = ? AND c.step <= ? ORDER BY c.idx DESC LIMIT 1`,
		key.Turn, string(turn.EventModelChanged), key.Step).Scan(intoContent(&data))
	if errors.Is(err, sql.ErrNoRows) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(data), &out)
	}
	return out, err
}
