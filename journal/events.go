package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// emittedAtOnce is how many events one statement inserts.
const emittedAtOnce = 16

// emit appends events to the turn's stream under the next indexes, and notifies the turn's followers after the commit.
func (t *tx) emit(sc *scope, events ...turn.Event) error {
	for some := range slices.Chunk(events, emittedAtOnce) {
		t.Changed[Topic{Turn: sc.TurnID}] = true
		rows, args := make([]string, len(some)), []any{sc.Turn}
		for i, e := range some {
			n := len(args)
			rows[i] = fmt.Sprintf("(?1, (SELECT coalesce(max(idx), -1) FROM events WHERE turn = ?1) + %d, ?%d, ?%d, ?%d, ?%d, ?%d, ?%d)",
				i+1, n+1, n+2, n+3, n+4, n+5, n+6)
			args = append(args, e.Step, e.Attempt, string(e.Kind), nanos(e.At), contentOf(CleanText(e.Text)),
				contentOrNull(CleanText(string(e.Data))))
		}
		err := t.Exec(`INSERT INTO events (turn, idx, step, attempt, kind, at, text, data) VALUES `+strings.Join(rows, ", "), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// phaseEvent returns the event that the turn has entered a phase.
func phaseEvent(step, attempt int, at time.Time, data turn.PhaseEvent) turn.Event {
	return turn.Event{Kind: turn.EventPhase, Step: step, Attempt: attempt, At: at, Data: mustJSON(data)}
}

// emitData is emit with data, encoded as JSON, as the event's Data.
func (t *tx) emitData(sc *scope, e turn.Event, data any) (err error) {
	if e.Data, err = json.Marshal(data); err != nil {
		return err
	}
	return t.emit(sc, e)
}

// AppendEvents numbers the events of an inference's running attempt and appends them to the turn's stream. Of each
// event, it reads only Kind, Text, Data and At. It refuses kinds that the journal writes itself. After an error
// nothing is appended. A call that is repeated after success appends again: AppendEvents and NoteCall have no
// idempotency key.
//
// ErrStale if a newer attempt of the step runs or the step is settled, ErrClosed if the turn has ended, ErrNotFound
// if the attempt never started. Attempt 0 is for failures of the step's tool calls: once the step is settled, it may
// append events of kind turn.EventError.
func (db *DB) AppendEvents(ctx context.Context, key StepKey, attempt int, events []turn.Event) error {
	return db.appendEvents(ctx, StreamInput{Key: key, Attempt: attempt, Events: events})
}

// appendEvents is AppendEvents and AppendStream. It also records in.PromptTokens, which marks the attempt as billed,
// even if there are no events.
func (db *DB) appendEvents(ctx context.Context, in StreamInput) error {
	key, attempt, events := in.Key, in.Attempt, in.Events
	doing := stepName("appending events to", key)
	if err := checkEvents(events); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if len(events) == 0 && in.PromptTokens <= 0 {
		return nil
	}
	return db.write(ctx, doing, func(t *tx) error {
		a, err := t.LockedAttempt(key)
		if err != nil {
			return err
		}
		switch {
		case attempt == 0 && a.Inf.Settled && !a.Closed && onlyErrors(events):
			a.Inf.Attempt = 0 // emitDeltas writes this number into the events
		case a.Inf.Settled:
			return fmt.Errorf("the step is settled: %w", ErrStale)
		default:
			if err := checkRunning(a, attempt); err != nil {
				return err
			}
		}
		if err := t.markBilled(a, in.PromptTokens); err != nil || len(events) == 0 {
			return err
		}
		// The events of one call are committed together: if the last one was appended, all of them were.
		last := events[len(events)-1]
		last.Step, last.Attempt = key.Step, attempt
		if done, err := t.isAppended(&a.scope, last); done || err != nil {
			return err
		}
		return t.emitDeltas(a, events)
	})
}

// isAppended reports whether an earlier run of this transaction has appended e. A transaction runs again if the reply
// to its commit was lost; it may have been committed nevertheless. An event with the same step, attempt, kind, time
// and text counts as e.
func (t *tx) isAppended(sc *scope, e turn.Event) (done bool, err error) {
	if !t.Again() {
		return false, nil
	}
	texts, err := t.Texts(`SELECT text FROM events WHERE turn = ? AND step = ? AND attempt = ? AND kind = ? AND at = ?`,
		sc.Turn, e.Step, e.Attempt, string(e.Kind), nanos(e.At))
	return slices.Contains(texts, CleanText(e.Text)), err
}

// hasText reports whether one of the events shows text of a model.
func hasText(events []turn.Event) bool {
	return slices.ContainsFunc(events, func(e turn.Event) bool {
		return e.Kind == turn.EventTextDelta || e.Kind == turn.EventReasoningDelta
	})
}

// onlyErrors reports whether all events are of kind turn.EventError.
func onlyErrors(events []turn.Event) bool {
	return !slices.ContainsFunc(events, func(e turn.Event) bool { return e.Kind != turn.EventError })
}

// checkEvents returns an error if callers may not append one of the events: its kind is one that the journal itself
// writes, it exceeds a bound, or its data is not JSON.
func checkEvents(events []turn.Event) error {
	if len(events) > MaxEvents {
		return fmt.Errorf("%d events at once; the maximum is %d", len(events), MaxEvents)
	}
	for _, e := range events {
		if t, _ := e.Kind.Type(); !t.ByWorker {
			return fmt.Errorf("an event of kind %q: the journal writes those itself", e.Kind)
		}
		if n := len(e.Text) + len(e.Data); n > MaxEventBytes {
			return fmt.Errorf("an event is %d bytes; the maximum is %d", n, MaxEventBytes)
		}
		if len(e.Data) > 0 && !json.Valid(e.Data) {
			return fmt.Errorf("an event of kind %q: its data is not JSON", e.Kind)
		}
	}
	return nil
}

// emitDeltas appends the events of the attempt a.Inf.Attempt. With the first text of an attempt it also sets emitted in
// the inference's row: if the attempt is lost, the next one then emits attempt_restarted.
func (t *tx) emitDeltas(a attemptRow, events []turn.Event) error {
	numbered := slices.Clone(events)
	for i := range numbered {
		numbered[i].Step, numbered[i].Attempt = a.Inf.Key.Step, a.Inf.Attempt
	}
	if err := t.emit(&a.scope, numbered...); err != nil || a.Emitted || !hasText(events) {
		return err
	}
	return t.Exec(`UPDATE inferences SET emitted = TRUE WHERE id = ?`, a.Row)
}

// Events returns the events of a turn with index > after (-1: from the first), in order, at most limit of them. It
// returns none for a turn that has not begun.
func (db *DB) Events(ctx context.Context, turnID string, after int64, limit int) ([]turn.Event, error) {
	return get(ctx, db, "reading the events of turn "+turnID, func(q querier) ([]turn.Event, error) {
		return collect(q, func(scan scanner) (turn.Event, error) {
			e := turn.Event{Turn: turnID}
			err := scanEvent(scan, &e)
			return e, err
		}, `SELECT idx, step, attempt, kind, at, text, coalesce(data, '') FROM events
			WHERE turn = (SELECT t.id FROM turns t JOIN sessions s ON s.id = t.session WHERE t.turn_id = ? AND s.tenant = ?)
				AND idx > ?
			ORDER BY idx LIMIT ?`, turnID, q.Tenant, after, limit)
	})
}

// HasEvent reports whether a turn has an event of a kind.
func (db *DB) HasEvent(ctx context.Context, turnID string, kind turn.EventKind) (bool, error) {
	return getOfNamedTurn(ctx, db, turnID, "looking for an event", func(q querier, sc scope) (has bool, err error) {
		err = q.Row(`SELECT EXISTS (SELECT 1 FROM events WHERE turn = ? AND kind = ?)`, sc.Turn, string(kind)).Scan(&has)
		return has, err
	})
}

// LastEvent returns the last event of a turn. ErrNotFound if there is none.
func (db *DB) LastEvent(ctx context.Context, turnID string) (turn.Event, error) {
	const doing = "reading the last event"
	last, err := getOfNamedTurn(ctx, db, turnID, doing, func(q querier, sc scope) (n int64, err error) {
		err = q.Row(`SELECT coalesce(max(idx), -1) FROM events WHERE turn = ?`, sc.Turn).Scan(&n)
		return n, err
	})
	if err != nil {
		return turn.Event{}, err
	}
	events, err := db.Events(ctx, turnID, last-1, 1)
	if err == nil && len(events) == 0 {
		err = fmt.Errorf("%s of turn %s: %w", doing, turnID, ErrNotFound)
	}
	if err != nil {
		return turn.Event{}, err
	}
	return events[0], nil
}

// Texts returns the first column of a query's result, a column of content that is not null.
func (q querier) Texts(query string, args ...any) ([]string, error) {
	return collect(q, func(scan scanner) (text string, err error) {
		err = scan(intoContent(&text))
		return text, err
	}, query, args...)
}

// scanEvent scans a row with the columns idx, step, attempt, kind, at, text and data (not null) into e, and the columns
// after them into the destinations in after. It does not set e.Turn.
func scanEvent(scan scanner, e *turn.Event, after ...any) error {
	var at int64
	var data string
	err := scan(append([]any{&e.Index, &e.Step, &e.Attempt, &e.Kind, &at, intoContent(&e.Text), intoContent(&data)}, after...)...)
	e.At = instant(at)
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	return err
}

// pruneBatch is the number of turns whose events one transaction removes, so that running turns do not wait long.
const pruneBatch = 16

// PruneEvents removes the events of turns that ended before the given time, of at most limit turns of all tenants,
// and returns the number of these turns. The transcript stays. A pruned turn keeps its turn_completed, so that
// followers end. If PruneEvents returns an error, the turns that it counts are pruned nevertheless.
func (db *DB) PruneEvents(ctx context.Context, before time.Time, limit int) (turns int, err error) {
	for turns < limit {
		batch := min(pruneBatch, limit-turns)
		var pruned []int64
		err := db.write(ctx, "removing old events", func(t *tx) (err error) {
			// If this is another run of the transaction, pruned has the turns of the run before.
			if done, err := t.isPruned(pruned); done || err != nil {
				return err
			}
			pruned, err = t.prune(nanos(before), batch)
			return err
		})
		if err != nil {
			return turns, err
		}
		if turns += len(pruned); len(pruned) < batch {
			break
		}
	}
	return turns, nil
}

// isPruned reports whether an earlier run of this transaction has pruned these turns: the reply to its commit was lost,
// but it was committed. The turns of a run are committed together: if the first one is pruned, all of them are.
func (t *tx) isPruned(turns []int64) (done bool, err error) {
	if !t.Again() || len(turns) == 0 {
		return false, nil
	}
	err = t.Row(`SELECT pruned FROM turns WHERE id = ?`, turns[0]).Scan(&done)
	return done, err
}

// prune removes the events of at most limit turns that ended before a time, in nanoseconds since 1970, and returns the
// rows of these turns.
func (t *tx) prune(before int64, limit int) (list []int64, err error) {
	list, err = column[int64](t.querier,
		`SELECT id FROM turns WHERE NOT pruned AND ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?`+
			t.Lock(), before, limit)
	if err != nil {
		return nil, err
	}
	for _, n := range list {
		if err := t.Exec(`DELETE FROM events WHERE turn = ? AND kind <> ?`, n, string(turn.EventTurnCompleted)); err != nil {
			return nil, err
		}
		if err := t.Exec(`UPDATE turns SET pruned = TRUE WHERE id = ?`, n); err != nil {
			return nil, err
		}
	}
	return list, nil
}
