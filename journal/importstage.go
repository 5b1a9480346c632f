package journal

import (
	"context"
	"errors"
	"time"
)

// An import writes in many short transactions, so that it does not block other sessions. Until the last one the session
// is staged: it belongs to stagedTenant, and its ID and the IDs of its turns begin with stagedPrefix and random
// letters. No caller can name them, because the IDs of sessions and tenants do not begin with a space.
const (
	stagedTenant = " import"
	stagedPrefix = " import:"
)

// stagedFor is the longest an import may take. The next import removes older staged sessions, because their processes
// have died.
const stagedFor = 24 * time.Hour

// dropAbandonedImports removes the staged sessions of imports whose processes have died.
func (s *DB) dropAbandonedImports(ctx context.Context) error {
	var left []int64
	err := s.read(ctx, "looking for unfinished imports", func(q querier) error {
		left = nil
		return q.each(func(rows Rows) error {
			var n int64
			err := rows.Scan(&n)
			left = append(left, n)
			return err
		}, `SELECT id FROM sessions WHERE tenant = ? AND updated_at < ?`, stagedTenant, nanos(time.Now().Add(-stagedFor)))
	})
	for _, session := range left {
		err = errors.Join(err, s.dropStaged(ctx, session))
	}
	return err
}

// dropStaged removes a staged session.
func (s *DB) dropStaged(ctx context.Context, session int64) error {
	for more := true; more; {
		err := s.write(ctx, "removing an unfinished import", func(t *tx) (err error) {
			more, err = t.dropPart(session)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropBatch is the number of chunks or messages that one transaction removes.
const dropBatch = 1000

// dropPart removes a part of a staged session: messages, then turns from the last one, then the session. It reports
// whether there may be more. It leaves a published session alone: the reply to the import's last commit may have been
// lost, and the session may be in use.
func (t *tx) dropPart(session int64) (more bool, err error) {
	err = t.row(`SELECT 1 FROM sessions WHERE id = ? AND tenant = ?`+t.Lock(), session, stagedTenant).Scan(new(int))
	if err != nil {
		return false, ignoreNoRows(err)
	}
	var seq, turnN, idx int64
	err = t.row(`SELECT (SELECT coalesce(max(seq), 0) FROM messages WHERE session = ?1),
		(SELECT coalesce(max(id), 0) FROM turns WHERE session = ?1)`, session).Scan(&seq, &turnN)
	if err == nil && turnN != 0 {
		err = t.row(`SELECT coalesce(max(idx), -1) FROM chunks WHERE turn = ?`, turnN).Scan(&idx)
	}
	switch {
	case err != nil:
		return false, err
	case seq > 0:
		return true, t.exec(`DELETE FROM messages WHERE session = ? AND seq > ?`, session, seq-dropBatch)
	case turnN != 0 && idx >= 0:
		return true, t.exec(`DELETE FROM chunks WHERE turn = ? AND idx > ?`, turnN, idx-dropBatch)
	case turnN != 0:
		return true, t.execAll(turnN, `DELETE FROM late_results WHERE call IN (SELECT id FROM calls WHERE turn = ?)`,
			`DELETE FROM artifacts WHERE call IN (SELECT id FROM calls WHERE turn = ?)`, `DELETE FROM calls WHERE turn = ?`,
			`DELETE FROM requests WHERE turn = ?`, `DELETE FROM inferences WHERE turn = ?`, `DELETE FROM turns WHERE id = ?`)
	}
	return false, t.execAll(session, `DELETE FROM taint_sources WHERE session = ?`, `DELETE FROM sessions WHERE id = ?`)
}

func (t *tx) execAll(arg int64, queries ...string) error {
	for _, q := range queries {
		if err := t.exec(q, arg); err != nil {
			return err
		}
	}
	return nil
}
