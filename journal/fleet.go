package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/journal/fleet"
)

// FleetScopes returns the states of the named scopes, or of all scopes if no names are given, ordered by name. It
// leaves out scopes that the journal does not have.
func (db *DB) FleetScopes(ctx context.Context, names ...string) ([]fleet.ScopeState, error) {
	return get(ctx, db, "reading the fleet limits", func(q querier) (out []fleet.ScopeState, err error) {
		rows, err := readScopes(q, names, "")
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		now, err := databaseTime(q)
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			out = append(out, rows[name].State(now))
		}
		return out, err
	})
}

// SetFleetLimits sets limits of a scope. A negative number removes a limit, so that its default applies again.
func (db *DB) SetFleetLimits(ctx context.Context, scope string, limits fleet.Limits) error {
	return db.changeScope(ctx, "setting the limits of "+scope, scope, func(r *fleet.Row, _ time.Time) {
		for name, n := range limits {
			if n < 0 {
				delete(r.Limits, name)
			} else {
				r.Limits[name] = n
			}
		}
	})
}

// PauseScope stops the requests of a scope for some time. Inferences that are running continue. It replaces an earlier
// pause.
func (db *DB) PauseScope(ctx context.Context, scope, by, reason string, pause time.Duration) (p fleet.Pause,
	err error) {
	err = db.changeScope(ctx, "pausing "+scope, scope, func(r *fleet.Row, now time.Time) {
		p = fleet.Pause{By: CleanText(by), Reason: CleanText(reason), Until: now.Add(pause)}
		r.Pause = &p
	})
	return p, err
}

// ResumeScope ends the pause of a scope, and also the one that its provider requested with Retry-After. It reports
// whether there was either.
func (db *DB) ResumeScope(ctx context.Context, scope string) (waited bool, err error) {
	err = db.changeScope(ctx, "resuming "+scope, scope, func(r *fleet.Row, now time.Time) {
		state := r.State(now)
		waited = state.Pause != nil || !state.NotBefore.IsZero()
		r.Pause, r.NotBefore = nil, time.Time{}
	})
	return waited, err
}

// changeScope applies change to the row of a scope, which is locked, and created if it is missing. change gets the
// database's time.
func (db *DB) changeScope(ctx context.Context, doing, scope string, change func(*fleet.Row, time.Time)) error {
	return db.write(ctx, doing, func(t *tx) error {
		if err := checkID("scope", scope); err != nil {
			return err
		}
		rows, now, err := lockScopes(t, []string{scope}, func(string) bool { return true })
		if err != nil {
			return err
		}
		change(rows[scope], now)
		return saveScope(t, rows[scope])
	})
}

// LeaseCapacity grants or refuses each request, and records the requests that have ended. A granted request counts as
// sent from now on, even if the reply of the transaction is lost and the worker does not send it. Requests are counted
// only in scopes that have limits.
func (db *DB) LeaseCapacity(ctx context.Context, in fleet.CapacityInput) (out fleet.CapacityResult, err error) {
	err = db.write(ctx, "leasing capacity of the fleet limits", func(t *tx) error {
		rows, now, err := lockScopes(t, in.Scopes(), func(scope string) bool { return in.Counts(scope, nil) })
		if err != nil {
			return err
		}
		out = rows.Lease(in, now, t.Again())
		for _, scope := range slices.Sorted(maps.Keys(rows)) {
			if r := rows[scope]; in.Counts(scope, r.Limits) {
				if err := saveScope(t, r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return out, err
}

// lockScopes locks and returns the rows of scopes, or all rows if scopes is empty, and the database's time once they
// are locked. It creates a missing row if create returns true for its scope. The scopes must be sorted, so that
// concurrent transactions lock them in the same order.
func lockScopes(t *tx, scopes []string, create func(scope string) bool) (fleet.Rows, time.Time, error) {
	rows, err := readScopes(t.querier, scopes, t.Lock())
	missing := false
	for _, scope := range scopes {
		if err == nil && create(scope) && rows[scope] == nil {
			missing = true
			err = t.Exec(`INSERT INTO fleet_limits (scope, limits, usage, pause, not_before) VALUES (?, '{}', '{}', '', 0)
				ON CONFLICT DO NOTHING`, scope)
		}
	}
	if err == nil && missing { // lock the new rows, too
		rows, err = readScopes(t.querier, scopes, t.Lock())
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := databaseTime(t.querier)
	return rows, now, err
}

// databaseTime returns the time of the database's clock.
func databaseTime(q querier) (time.Time, error) {
	var now int64
	err := q.Row(`SELECT now FROM clock`).Scan(&now)
	return instant(now), err
}

// readScopes returns the rows of the named scopes, or of all scopes if there are no names, without their effective
// limits. lock is the clause that locks the rows, or empty.
func readScopes(q querier, names []string, lock string) (fleet.Rows, error) {
	where, args := "", []any{}
	if len(names) > 0 {
		where = ` WHERE scope IN (` + strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ") + `)`
		for _, n := range names {
			args = append(args, n)
		}
	}
	rows := fleet.Rows{}
	err := q.Each(func(row Rows) error {
		r := &fleet.Row{Limits: fleet.Limits{}}
		var limits, usage, pause string
		var notBefore int64
		err := row.Scan(&r.Scope, &limits, &usage, &pause, &notBefore)
		if err == nil {
			err = errors.Join(json.Unmarshal([]byte(limits), &r.Limits), json.Unmarshal([]byte(usage), &r.Used))
		}
		if err == nil && pause != "" {
			err = json.Unmarshal([]byte(pause), &r.Pause)
		}
		if err != nil {
			return fmt.Errorf("scope %s: %w", r.Scope, err)
		}
		r.NotBefore = instant(notBefore)
		rows[r.Scope] = r
		return nil
	}, `SELECT scope, limits, usage, pause, not_before FROM fleet_limits`+where+` ORDER BY scope`+lock, args...)
	return rows, err
}

// saveScope writes the row of a scope.
func saveScope(t *tx, r *fleet.Row) error {
	pause := ""
	if r.Pause != nil {
		pause = string(mustJSON(r.Pause))
	}
	return t.Exec(`UPDATE fleet_limits SET limits = ?, usage = ?, pause = ?, not_before = ? WHERE scope = ?`,
		string(mustJSON(r.Limits)), string(mustJSON(r.Used)), pause, nanos(r.NotBefore), r.Scope)
}

// ReportWorker records that a worker runs, in place of its last report. It also deletes the expired reports of all
// workers.
func (db *DB) ReportWorker(ctx context.Context, r fleet.WorkerReport) error {
	return db.write(ctx, "reporting on a worker", func(t *tx) error {
		if err := checkID("worker", r.ID); err != nil {
			return err
		}
		servers, err := json.Marshal(r.Servers)
		if err != nil {
			return err
		}
		offers, err := json.Marshal(r.Offers)
		if err != nil {
			return err
		}
		err = t.Exec(`DELETE FROM workers WHERE id = ? OR seen_at < (SELECT now FROM clock) - ?`, r.ID,
			int64(fleet.WorkerExpiry))
		if err != nil {
			return err
		}
		err = t.Exec(`INSERT INTO workers (id, identity, task_queue, servers, home, offers, place, seen_at)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, now FROM clock`,
			r.ID, CleanText(r.Identity), CleanText(r.TaskQueue), string(servers), CleanText(r.Home),
			string(offers), CleanText(r.Place))
		if err != nil || r.Place == "" {
			return err
		}
		return t.seePlace(CleanText(r.Place), r.Identity)
	})
}

// RemoveWorker records that a worker has stopped.
func (db *DB) RemoveWorker(ctx context.Context, id string) error {
	return db.write(ctx, "removing a worker", func(t *tx) error {
		return t.Exec(`DELETE FROM workers WHERE id = ?`, id)
	})
}

// Workers returns the reports of all workers with this journal that have not expired, ordered by identity: see
// fleet.WorkerExpiry.
func (db *DB) Workers(ctx context.Context) (out []fleet.WorkerReport, err error) {
	err = db.read(ctx, "listing the workers", func(q querier) (err error) {
		out, err = collect(q, func(scan scanner) (r fleet.WorkerReport, err error) {
			var servers, offers string
			var seen int64
			if err = scan(&r.ID, &r.Identity, &r.TaskQueue, &servers, &r.Home, &offers, &r.Place, &seen); err != nil {
				return r, err
			}
			r.SeenAt = instant(seen)
			if err := json.Unmarshal([]byte(servers), &r.Servers); err != nil {
				return r, fmt.Errorf("reading the MCP servers of worker %s: %w", r.Identity, err)
			}
			return r, json.Unmarshal([]byte(offers), &r.Offers)
		}, `SELECT id, identity, task_queue, servers, home, offers, place, seen_at FROM workers
			WHERE seen_at >= (SELECT now FROM clock) - ? ORDER BY identity, id`, int64(fleet.WorkerExpiry))
		return err
	})
	return out, err
}
