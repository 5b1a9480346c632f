package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/workflows/turn"
)

// The ledger of usage has one row for each attempt of an inference that the provider bills, as far as is known. A
// budget reserves the most that an attempt may use before the prompt is sent; SettleInference and RecordUsage replace
// the reservation by what the attempt has used. The reservation of an attempt whose worker died stays: the provider may
// bill all of it.

// AttemptUsage is what one attempt of an inference has used.
type AttemptUsage struct {
	Key     StepKey
	Attempt int
	// Summary counts the summaries that the attempt asks for before its own prompt; 0 is the attempt itself. Its row only
	// stays if no compaction is settled, which has the usage of its summaries.
	Summary int
	// Provider and Model price the attempt.
	Provider, Model string
	Usage           turn.Usage
	At              time.Time
}

// maxSummaries is the largest Summary.
const maxSummaries = 2

// row returns the attempt's number in the ledger, which is negative for a summary.
func (u AttemptUsage) row() int {
	if u.Summary == 0 {
		return u.Attempt
	}
	return -(u.Attempt*(maxSummaries+1) + u.Summary)
}

// settleUsage records the usage of the attempt that settles its step. The caller has checked that the step was not
// settled, so the row is missing unless it was reserved.
func (t *tx) settleUsage(a tables.Attempt, in SettleInference) error {
	used := AttemptUsage{Key: in.Key, Attempt: in.Attempt, Provider: in.Provider, Model: a.Inf.Model,
		Usage: in.Answer.Usage, At: in.At}
	if in.Reserved {
		return t.recordUsage(a.Scope, used)
	}
	day := dayOf(in.At)
	if err := t.insertUsage(a.Scope, used, day, false); err != nil || used.Usage.Cost == 0 {
		return err
	}
	return t.addSpending(a.Tenant, day, used.Usage.Cost)
}

// RecordUsage records the usage of an attempt that is not settled: it failed, it was stopped, or another attempt was
// settled. It ends the attempt's reservation; if the attempt used nothing, no row is left. The first record of an
// attempt stands. The turn may have ended; its usage then changes. ErrNotFound if the step was never started.
func (db *DB) RecordUsage(ctx context.Context, in AttemptUsage) error {
	return db.write(ctx, stepName("recording the usage of", in.Key), func(t *tx) error {
		a, err := t.LockedAttempt(in.Key)
		if err != nil {
			return err
		}
		if a.Row == 0 || in.Attempt > a.Inf.Attempt {
			return fmt.Errorf("attempt %d was never started: %w", in.Attempt, ErrNotFound)
		}
		if err := t.recordUsage(a.Scope, in); err != nil || !a.Closed {
			return err
		}
		return t.saveTurnUsage(a.Scope)
	})
}

// saveTurnUsage writes the usage of a turn that has ended into its row.
func (t *tx) saveTurnUsage(sc scope) error {
	used, err := turnUsage(t.Querier, sc.Turn)
	if err != nil {
		return err
	}
	usage, err := json.Marshal(used)
	if err != nil {
		return err
	}
	return t.Exec(`UPDATE turns SET usage = ? WHERE id = ?`, string(usage), sc.Turn)
}

// usageRecord is what a budget needs of a row.
type usageRecord struct {
	there    bool
	reserved bool
	output   int64
	cost     turn.USD
	day      string
}

func usageRow(q querier, turnRow int64, key StepKey, attempt int) (r usageRecord, err error) {
	err = q.Row(`SELECT reserved, output_tokens, cost, day FROM inference_usage
		WHERE turn = ? AND step = ? AND attempt = ?`, turnRow, key.Step, attempt).Scan(&r.reserved, &r.output, &r.cost, &r.day)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	r.there = err == nil
	return r, err
}

// recordUsage replaces the attempt's reservation. It reads the old row because a repeated transaction must not change
// the tenant's spending twice.
func (t *tx) recordUsage(sc scope, in AttemptUsage) error {
	old, err := usageRow(t.Querier, sc.Turn, in.Key, in.row())
	if err != nil || old.there && !old.reserved {
		return err
	}
	day := dayOf(in.At)
	if old.there { // the cost stays in the day of its reservation
		day = old.day
		err = t.Exec(`DELETE FROM inference_usage WHERE turn = ? AND step = ? AND attempt = ?`, sc.Turn, in.Key.Step,
			in.row())
	}
	if err == nil && in.Usage != (turn.Usage{}) {
		err = t.insertUsage(sc, in, day, false)
	}
	if change := in.Usage.Cost - old.cost; err == nil && change != 0 {
		err = t.addSpending(sc.Tenant, day, change)
	}
	return err
}

func (t *tx) insertUsage(sc scope, in AttemptUsage, day string, reserved bool) error {
	u := in.Usage
	return t.Exec(`INSERT INTO inference_usage (turn, step, attempt, provider, model, input_tokens, cached_tokens,
		cache_write_tokens, output_tokens, reasoning_tokens, cost, unpriced, estimated, reserved, at, day)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, sc.Turn, in.Key.Step, in.row(), in.Provider,
		record.CleanText(in.Model), u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens,
		int64(u.Cost), u.Unpriced, u.Estimated, reserved, tables.Nanos(in.At), day)
}

// addSpending changes the sums of a day and its month, if a budget keeps them.
func (t *tx) addSpending(tenant, day string, change turn.USD) error {
	return t.Exec(`UPDATE spending SET cost = cost + ? WHERE tenant = ? AND period IN (?, ?)`, int64(change), tenant, day,
		monthOf(day))
}

// dayOf returns the day of a time in UTC, and monthOf the month of a day.
func dayOf(at time.Time) string    { return at.UTC().Format(time.DateOnly) }
func monthOf(day string) string    { return day[:len("2006-01")] }
func flag(condition string) string { return `max(CASE WHEN ` + condition + ` THEN 1 ELSE 0 END)` }

// usageSums are the columns of a sum over inference_usage u. An open reservation is an estimate.
var usageSums = `CAST(coalesce(sum(u.input_tokens), 0) AS BIGINT), CAST(coalesce(sum(u.output_tokens), 0) AS BIGINT),
	CAST(coalesce(sum(u.cached_tokens), 0) AS BIGINT), CAST(coalesce(sum(u.cache_write_tokens), 0) AS BIGINT),
	CAST(coalesce(sum(u.reasoning_tokens), 0) AS BIGINT), CAST(coalesce(sum(u.cost), 0) AS BIGINT),
	coalesce(` + flag("u.unpriced") + `, 0), coalesce(` + flag("u.estimated OR u.reserved") + `, 0)`

// scanUsage reads the fields before and then usageSums.
func scanUsage(scan tables.Scanner, u *turn.Usage, before ...any) error {
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

// otherUsage returns the usage of the step's other attempts.
func otherUsage(q querier, a tables.Attempt) (u turn.Usage, err error) {
	if a.Inf.Attempt == 1 {
		return u, nil
	}
	err = scanUsage(q.Row(`SELECT `+usageSums+` FROM inference_usage u WHERE u.turn = ? AND u.step = ? AND u.attempt <> ?`,
		a.Turn, a.Inf.Key.Step, a.Inf.Attempt).Scan, &u)
	return u, err
}

// lostAttempt returns the running attempt if it has no record of its usage.
func (t *tx) lostAttempt(a tables.Attempt) (lost record.LostAttempt, err error) {
	row, err := usageRow(t.Querier, a.Turn, a.Inf.Key, a.Inf.Attempt)
	if err != nil || row.there {
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

// TurnUsage returns the usage of all attempts of a turn so far.
func (db *DB) TurnUsage(ctx context.Context, turnID string) (turn.Usage, error) {
	return tables.GetOfNamedTurn(ctx, db.tables, turnID, "reading the usage",
		func(q querier, sc scope) (turn.Usage, error) {
			return turnUsage(q, sc.Turn)
		})
}
