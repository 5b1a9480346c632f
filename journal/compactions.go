package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// SettleCompaction is the input of DB.SettleCompaction: a compaction of the prompt of an inference.
type SettleCompaction struct {
	Session string
	// Key and Attempt name the running attempt of the inference whose prompt is compacted.
	Key     StepKey
	Attempt int
	turn.Compaction
}

// SettleCompaction records a compaction with its summary and the usage of the summary, and emits compacted. If the
// inference already has a compaction for this reason, SettleCompaction returns that one and changes nothing. ErrStale
// if a newer attempt runs; ErrConflict if in.At is not the head from which the inference renders its prompt, or the
// inference is settled; ErrClosed if the turn has ended.
func (db *DB) SettleCompaction(ctx context.Context, in SettleCompaction) (out turn.Compaction, err error) {
	name := fmt.Sprintf("%s/%d/%s", in.Key.Turn, in.Key.Step, in.Reason)
	err = db.write(ctx, stepName("compacting", in.Key), func(t *tx) error {
		a, err := t.LockedAttempt(in.Key)
		if err == nil {
			err = a.Check(in.Session)
		}
		if err != nil {
			return err
		}
		if out, err = t.NamedCompaction(name); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := checkRunning(a, in.Attempt); err != nil {
			return err
		}
		if a.Inf.Settled || in.At != a.Inf.Base {
			return conflict(a.Inf.Base, in.At)
		}
		out = in.Compaction
		out.Turn, out.Step = in.Key.Turn, in.Key.Step
		if err := t.InsertCompaction(a.Session, a.Turn, name, &out); err != nil {
			return err
		}
		if err := t.addSpending(a.scope, dayOf(out.SettledAt), out.Usage, turn.Usage{}); err != nil {
			return err
		}
		// The compaction's row has the usage of the summaries now: a record without usage removes their reservations,
		// so that they do not count twice.
		for n := range maxSummaries {
			summary := AttemptUsage{Key: in.Key, Attempt: in.Attempt, Summary: n + 1, At: out.SettledAt}
			if err := t.recordUsage(a.scope, summary); err != nil {
				return err
			}
		}
		return t.emitData(&a.scope, turn.Event{Kind: turn.EventCompacted, Step: in.Key.Step, Attempt: in.Attempt,
			At: in.SettledAt, Text: preview(out.Warning, PreviewBytes)}, out.Report())
	})
	return out, err
}

// AddCompaction records a compaction that a user requested. request is its ID, unique in the session: if the session
// has a compaction of this ID, AddCompaction returns that one and changes nothing. ErrConflict unless c.At is a
// message of the session or of its shared past; ErrNotFound if the session does not exist.
func (db *DB) AddCompaction(ctx context.Context, session, request string,
	c turn.Compaction) (out turn.Compaction, err error) {
	err = db.write(ctx, fmt.Sprintf("compacting session %q", session), func(t *tx) error {
		if err := errors.Join(checkID("request", request), t.LockSession(session)); err != nil {
			return err
		}
		n, err := t.SessionRow(session)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%d/%s", n, request)
		if out, err = t.NamedCompaction(name); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		p, err := t.Point(n, c.At.Seq)
		if ignoreNoRows(err) != nil {
			return err
		}
		if p.Hash != c.At.Hash { // p.Hash is empty if there is no such message
			return conflict(turn.Head{Seq: c.At.Seq, Hash: p.Hash}, c.At)
		}
		out = c
		if err := t.InsertCompaction(n, 0, name, &out); err != nil {
			return err
		}
		return t.addSpending(scope{Session: n, Tenant: t.Tenant}, dayOf(out.SettledAt), out.Usage, turn.Usage{})
	})
	return out, err
}

// Compacted returns the compaction that AddCompaction recorded under the ID request. ErrNotFound if there is none.
func (db *DB) Compacted(ctx context.Context, session, request string) (turn.Compaction, error) {
	return getOfSession(ctx, db, session, "reading a compaction",
		func(q querier, n int64) (turn.Compaction, error) {
			return q.NamedCompaction(fmt.Sprintf("%d/%s", n, request))
		})
}

// Compactions returns all compactions of the session's transcript, its shared past included, ordered by At.Seq.
func (db *DB) Compactions(ctx context.Context, session string) ([]turn.Compaction, error) {
	return getOfSession(ctx, db, session, "listing the compactions",
		func(q querier, n int64) (out []turn.Compaction, err error) {
			parts, err := q.Segments(n, 0, allMessages)
			for _, p := range parts {
				var list []turn.Compaction
				if err == nil {
					list, err = q.Compactions(`session = ? AND at_seq <= ? ORDER BY at_seq, id`, p.Session, p.High)
				}
				out = append(out, list...)
			}
			return out, err
		})
}

// CompactionUsage returns the usage of the compactions of an inference's prompt.
func (db *DB) CompactionUsage(ctx context.Context, key StepKey) (u turn.Usage, err error) {
	list, err := getOfTurn(ctx, db, key.Turn, "reading the compactions",
		func(q querier, sc scope) ([]turn.Compaction,
			error) {
			return q.Compactions(`turn = ? ORDER BY id`, sc.Turn)
		})
	for _, c := range list {
		if c.Step == key.Step {
			u = u.Add(c.Usage)
		}
	}
	return u, err
}

// compactionOf returns the compaction that applies to a prompt with the messages of this line: the last one of the
// session or, for a fork, of its shared past. It returns nil if there is none.
func (q querier) compactionOf(line []segment) (*turn.Compaction, error) {
	for _, s := range slices.Backward(line) {
		list, err := q.Compactions(`session = ? AND at_seq <= ? ORDER BY at_seq DESC, id DESC LIMIT 1`, s.Session, s.High)
		if err != nil {
			return nil, err
		}
		if len(list) == 1 {
			return &list[0], nil
		}
	}
	return nil, nil
}

// NamedCompaction returns the compaction with this unique name, or sql.ErrNoRows. The name is "turn/step/reason", or
// "session row/request" if a user requested the compaction.
func (q querier) NamedCompaction(name string) (turn.Compaction, error) {
	list, err := q.Compactions(`name = ?`, name)
	if err == nil && len(list) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return turn.Compaction{}, err
	}
	return list[0], nil
}

// Compactions returns the compactions that the SQL condition where selects; it may also have ORDER BY and LIMIT.
func (q querier) Compactions(where string, args ...any) ([]turn.Compaction, error) {
	contents, err := collect(q, func(scan scanner) (c stored, err error) {
		err = scan(&c.Inline, &c.Blob)
		return c, err
	}, `SELECT content, content_blob FROM compactions WHERE `+where, args...)
	out := make([]turn.Compaction, len(contents))
	for i, c := range contents {
		var raw json.RawMessage
		if err == nil {
			raw, err = q.GetJSON(c)
		}
		if err == nil {
			err = json.Unmarshal(raw, &out[i])
		}
	}
	return out, err
}

// InsertCompaction inserts a compaction, and sets c.Hash and c.SettledAt if they are missing. turnRow is the turn whose
// prompt was compacted; 0 if a user requested the compaction. See NamedCompaction for name.
func (t *tx) InsertCompaction(session, turnRow int64, name string, c *turn.Compaction) error {
	if c.SettledAt.IsZero() {
		c.SettledAt = time.Unix(0, 1).UTC() // the columns at and day need a time that is not zero
	}
	c.SettledAt = c.SettledAt.UTC()
	if c.To > 0 && c.Hash == "" {
		p, err := t.Point(session, c.To)
		if err != nil {
			return err
		}
		c.Hash = p.Hash
	}
	raw, err := encodeJSON(c)
	if err != nil {
		return err
	}
	content, err := t.PutJSON([]byte(CleanText(string(raw))))
	if err != nil {
		return err
	}
	u := c.Usage
	return t.Exec(`INSERT INTO compactions (session, name, turn, at_seq, content, content_blob, provider, model,
		input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost, unpriced, estimated, at, day)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		session, name, numberOrNull(turnRow), c.At.Seq, content.Inline, content.Blob, CleanText(c.Provider),
		CleanText(c.Model), u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens,
		int64(u.Cost), u.Unpriced, u.Estimated, nanos(c.SettledAt), c.SettledAt.Format(time.DateOnly))
}
