package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/workflows/turn"
)

// The ledger of usage is the view used. The row of an inference has the usage of the attempt that settled it, and the
// table inference_usage has one row for each other attempt that the provider bills, as far as is known. If there is a
// budget, ReserveUsage inserts a row before the prompt is sent, with the most that the attempt may use; SettleInference
// removes this reservation, and RecordUsage replaces it by what the attempt has used. The reservation of an attempt
// whose worker died stays, because the provider may bill all of it.

// AttemptUsage is what one attempt of an inference has used.
type AttemptUsage struct {
	Key     StepKey
	Attempt int
	// Summary is 0 for the attempt's own prompt, and counts from 1 the summaries that the attempt requests before.
	// The row of a summary stays only if no compaction is settled: a settled one has the usage of its summaries.
	Summary int
	// Provider and Model are those that the attempt was sent to, and whose prices Usage.Cost is computed with.
	Provider, Model string
	Usage           turn.Usage
	At              time.Time
}

// maxSummaries is the largest Summary.
const maxSummaries = 2

// attemptColumn returns the attempt's number in the ledger. That of a summary is negative, so that it differs from the
// numbers of all attempts and of other summaries.
func (u AttemptUsage) attemptColumn() int {
	if u.Summary == 0 {
		return u.Attempt
	}
	return -(u.Attempt*(maxSummaries+1) + u.Summary)
}

// settleUsage removes the reservation of the attempt that has settled its step, and adds its usage to the accounts.
func (t *tx) settleUsage(a attemptRow, in SettleInference) (err error) {
	old := usageRecord{day: dayOf(in.At)}
	if in.Reserved {
		if old, err = t.removeUsage(a.scope, in.Key, in.Attempt, old.day); err != nil {
			return err
		}
	}
	if !a.HasAccounts {
		return nil
	}
	return t.addSpending(a.scope, old.day, in.Answer.Usage, old.usage)
}

// RecordUsage records the usage of an attempt that does not settle its step, because it failed or was stopped, or
// another attempt settled the step. It replaces the attempt's reservation; if the attempt used nothing, no row is
// left. The first record of an attempt stands. If the turn has ended already, RecordUsage also updates the turn's
// usage. ErrNotFound if the attempt was never started.
func (db *DB) RecordUsage(ctx context.Context, in AttemptUsage) error {
	return db.write(ctx, stepName("recording the usage of", in.Key), func(t *tx) error {
		a, err := t.LockedAttempt(in.Key)
		if err != nil {
			return err
		}
		if a.Row == 0 || in.Attempt > a.Inf.Attempt {
			return fmt.Errorf("attempt %d was never started: %w", in.Attempt, ErrNotFound)
		}
		if a.Inf.Settled && in.Attempt == a.Inf.Attempt && in.Summary == 0 {
			return nil // the row of the inference has its usage
		}
		if err := t.recordUsage(a.scope, in); err != nil || !a.Closed {
			return err
		}
		return t.saveTurnUsage(a.scope)
	})
}

// saveTurnUsage writes the sum of a turn's usage to its row, which has it once the turn has ended.
func (t *tx) saveTurnUsage(sc scope) error {
	used, err := turnUsage(t.querier, sc.Turn)
	if err != nil {
		return err
	}
	usage, err := json.Marshal(used)
	if err != nil {
		return err
	}
	return t.Exec(`UPDATE turns SET usage = ? WHERE id = ?`, string(usage), sc.Turn)
}

// usageRecord is a part of a row of the usage ledger. It is zero if the ledger has no such row.
type usageRecord struct {
	exists   bool       // the ledger has the row
	reserved bool       // it is a reservation
	usage    turn.Usage // only the tokens and the cost
	day      string     // of UTC, "2006-01-02": the day whose spending has the cost
}

// usageRow reads the row of an attempt. attempt is its AttemptUsage.attemptColumn.
func usageRow(q querier, turnRow int64, key StepKey, attempt int) (r usageRecord, err error) {
	err = q.Row(`SELECT reserved, input_tokens, output_tokens, cost, day FROM inference_usage
		WHERE turn = ? AND step = ? AND attempt = ?`, turnRow, key.Step, attempt).Scan(&r.reserved, &r.usage.InputTokens,
		&r.usage.OutputTokens, &r.usage.Cost, &r.day)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	r.exists = err == nil
	return r, err
}

// removeUsage removes the row of an attempt, and returns it. If there is none, it returns a record of this day.
func (t *tx) removeUsage(sc scope, key StepKey, attempt int, day string) (usageRecord, error) {
	old, err := usageRow(t.querier, sc.Turn, key, attempt)
	if err != nil || !old.exists {
		return usageRecord{day: day}, err
	}
	return old, t.Exec(`DELETE FROM inference_usage WHERE turn = ? AND step = ? AND attempt = ?`, sc.Turn, key.Step, attempt)
}

// recordUsage replaces the attempt's reservation by what the attempt has used, and corrects the accounts by the
// difference. If the attempt used nothing, no row is left. If the ledger has a row that is not a reservation, it
// changes nothing: the first record stands, and a repeated transaction must not change the accounts twice.
func (t *tx) recordUsage(sc scope, in AttemptUsage) error {
	old, err := usageRow(t.querier, sc.Turn, in.Key, in.attemptColumn())
	if err != nil || old.exists && !old.reserved {
		return err
	}
	// the usage counts for the day of its reservation
	if old, err = t.removeUsage(sc, in.Key, in.attemptColumn(), dayOf(in.At)); err != nil {
		return err
	}
	if in.Usage != (turn.Usage{}) {
		if err := t.insertUsage(sc, in, old.day, false /* replaceable */); err != nil {
			return err
		}
	}
	return t.addSpending(sc, old.day, in.Usage, old.usage)
}

// insertUsage inserts a row of the ledger. day is the day of UTC that the cost counts for, "2006-01-02". replaceable
// marks usage that recordUsage may replace: a reservation, or what recordEstimate assumes of a lost attempt.
// in.Usage.Estimated is something else: the provider did not report all tokens.
func (t *tx) insertUsage(sc scope, in AttemptUsage, day string, replaceable bool) error {
	u := in.Usage
	return t.Exec(`INSERT INTO inference_usage (turn, step, attempt, provider, model, input_tokens, cached_tokens,
		cache_write_tokens, output_tokens, reasoning_tokens, cost, unpriced, estimated, reserved, at, day)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, sc.Turn, in.Key.Step, in.attemptColumn(), in.Provider,
		CleanText(in.Model), u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens,
		int64(u.Cost), u.Unpriced, u.Estimated, replaceable, nanos(in.At), day)
}

// dayOf returns the day of a time in UTC, "2006-01-02".
func dayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// monthOf returns the month of a day, "2006-01".
func monthOf(day string) string { return day[:len("2006-01")] }

// anyRow returns an SQL aggregate that is 1 if the condition holds for any row, and 0 otherwise.
func anyRow(condition string) string { return `max(CASE WHEN ` + condition + ` THEN 1 ELSE 0 END)` }

// usageSums are the columns of a sum over rows u of inference_usage or of the view used, which also has the usage of
// compactions. A reservation counts as an estimate. See scanUsage.
var usageSums = `CAST(coalesce(sum(u.input_tokens), 0) AS BIGINT), CAST(coalesce(sum(u.output_tokens), 0) AS BIGINT),
	CAST(coalesce(sum(u.cached_tokens), 0) AS BIGINT), CAST(coalesce(sum(u.cache_write_tokens), 0) AS BIGINT),
	CAST(coalesce(sum(u.reasoning_tokens), 0) AS BIGINT), CAST(coalesce(sum(u.cost), 0) AS BIGINT),
	coalesce(` + anyRow("u.unpriced") + `, 0), coalesce(` + anyRow("u.estimated OR u.reserved") + `, 0)`

// scanUsage scans a row into u. The columns of the row are those for the destinations in before, followed by usageSums.
func scanUsage(scan scanner, u *turn.Usage, before ...any) error {
	var unpriced, estimated int
	err := scan(append(before, &u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.ReasoningTokens,
		&u.Cost, &unpriced, &estimated)...)
	u.Unpriced, u.Estimated = unpriced > 0, estimated > 0
	return err
}

// turnUsage returns the usage of all attempts of a turn, and of its compactions.
func turnUsage(q querier, turnRow int64) (u turn.Usage, err error) {
	err = scanUsage(q.Row(`SELECT `+usageSums+` FROM used u WHERE u.turn = ?`, turnRow).Scan, &u)
	return u, err
}

// otherUsage returns the usage of the step's attempts other than a.Inf.Attempt. It is zero if that is the first one.
func otherUsage(q querier, a attemptRow) (u turn.Usage, err error) {
	if a.Inf.Attempt == 1 {
		return u, nil
	}
	err = scanUsage(q.Row(`SELECT `+usageSums+` FROM inference_usage u WHERE u.turn = ? AND u.step = ? AND u.attempt <> ?`,
		a.Turn, a.Inf.Key.Step, a.Inf.Attempt).Scan, &u)
	return u, err
}

// lostAttempt returns the attempt a.Inf.Attempt with the size of the text that it has emitted, if the ledger has no
// row of its usage; otherwise the zero value. Such an attempt has usage that no worker has reported.
func (t *tx) lostAttempt(a attemptRow) (lost LostAttempt, err error) {
	row, err := usageRow(t.querier, a.Turn, a.Inf.Key, a.Inf.Attempt)
	if err != nil || row.exists {
		return lost, err
	}
	texts, err := t.Texts(`SELECT text FROM events WHERE turn = ? AND step = ? AND attempt = ? AND kind IN (?, ?)`, a.Turn,
		a.Inf.Key.Step, a.Inf.Attempt, string(turn.EventTextDelta), string(turn.EventReasoningDelta))
	lost.Attempt = a.Inf.Attempt
	for _, text := range texts {
		lost.OutputBytes += int64(len(text))
	}
	return lost, err
}

// TurnUsage returns the usage of all attempts of a turn so far, and of its compactions.
func (db *DB) TurnUsage(ctx context.Context, turnID string) (turn.Usage, error) {
	return getOfNamedTurn(ctx, db, turnID, "reading the usage",
		func(q querier, sc scope) (turn.Usage, error) {
			return turnUsage(q, sc.Turn)
		})
}

// UsageBy names the key by which a report of usage is grouped.
type UsageBy string

// The groupings.
const (
	UsageByModel   UsageBy = "model" // provider/model
	UsageBySession UsageBy = "session"
	UsageByDay     UsageBy = "day" // of UTC
	UsageByTenant  UsageBy = "tenant"
)

// usageKeys are the SQL expressions of the keys, for a query of usage u and sessions s.
var usageKeys = map[UsageBy]string{
	UsageByModel: `u.provider || '/' || u.model`, UsageByDay: `u.day`, UsageByTenant: `s.tenant`,
	// that of a subagent counts for the session that called it
	UsageBySession: fmt.Sprintf(`CASE WHEN s.caller_session = '' THEN s.session_id ELSE substr(%s, %d) END`,
		accountOf("s.id"), len(sessionAccount)+1),
}

// UsageRow is the usage of one group.
type UsageRow struct {
	Key string `json:"key"`
	// Attempts counts the attempts of inferences and the compactions that the provider billed, as far as is known.
	Attempts int        `json:"attempts"`
	Turns    int        `json:"turns"`
	Usage    turn.Usage `json:"usage"`
}

// SessionUsage returns the usage of all attempts of the session's turns, of its compactions, and of its subagents. A
// fork does not count those of its shared past.
func (db *DB) SessionUsage(ctx context.Context, session string) (turn.Usage, error) {
	return getOfSession(ctx, db, session, "reading the usage", func(q querier, n int64) (turn.Usage, error) {
		return sessionUsage(q, n)
	})
}

// Usage returns the usage of the tenant's sessions since a time, one row for each group, ordered by key. Only the
// operator may compare tenants: grouped by tenant, the handle of the default tenant returns all tenants, any other only
// its own.
func (db *DB) Usage(ctx context.Context, by UsageBy, since time.Time) ([]UsageRow, error) {
	key, ok := usageKeys[by]
	if !ok {
		return nil, fmt.Errorf("usage cannot be grouped by %q", by)
	}
	return get(ctx, db, "reading the usage", func(q querier) ([]UsageRow, error) {
		// CROSS JOIN makes SQLite begin with the index on at.
		where, args := ` CROSS JOIN sessions s WHERE s.id = u.session AND u.at >= ?`, []any{nanos(since)}
		if by != UsageByTenant || q.Tenant != "" {
			where, args = where+` AND s.tenant = ?`, append(args, q.Tenant)
		}
		return collect(q, func(scan scanner) (r UsageRow, err error) {
			err = scanUsage(scan, &r.Usage, &r.Key, &r.Attempts, &r.Turns)
			return r, err
		}, `SELECT `+key+`, count(*), count(DISTINCT u.turn), `+usageSums+` FROM used u`+where+` GROUP BY 1 ORDER BY 1`, args...)
	})
}
