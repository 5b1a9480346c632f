package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// Budget holds the ceilings for the spending that inferences may reserve. A nil field means no ceiling.
type Budget struct {
	Turn, Session             *turn.USD
	TurnTokens, SessionTokens *int64
	TenantDay, TenantMonth    *turn.USD // of UTC
	// Subagents is what the turn's subagents have used or may use. It counts for Turn and TurnTokens.
	Subagents turn.Spending
}

// Empty reports whether there is no ceiling.
func (b Budget) Empty() bool {
	b.Subagents = turn.Spending{}
	return b == Budget{}
}

// ReserveInput is the input of ReserveUsage and CheckBudget.
type ReserveInput struct {
	AttemptUsage             // Usage.InputTokens is the most that the prompt may have; the rest of Usage is not read
	Price        *turn.Price // nil if unknown: every ceiling in dollars then refuses
	// Output is the wanted limit of output tokens. Least is the smallest limit that the caller accepts instead.
	Output, Least int64
	Budget        Budget
}

// ReserveUsage reserves the most that an attempt may use, so that concurrent attempts cannot exceed a ceiling together.
// It returns the limit of output tokens for the attempt: the highest one up to in.Output that fits below all ceilings.
// If not even in.Least fits, it reserves nothing and returns a refusal. If the attempt has a reservation already, it
// returns the limit of that one. ErrStale if a newer attempt runs, ErrClosed if the turn has ended.
func (db *DB) ReserveUsage(ctx context.Context, in ReserveInput) (output int64, refusal *fleet.Refusal, err error) {
	err = db.write(ctx, stepName("reserving the budget of", in.Key), func(t *tx) error {
		a, err := t.LockedAttempt(in.Key)
		if err == nil {
			err = checkRunning(a, in.Attempt)
		}
		if err != nil {
			return err
		}
		old, err := usageRow(t.querier, a.Turn, in.Key, in.attemptColumn())
		if err != nil || old.exists { // an earlier run of this transaction was committed
			output = old.output
			return err
		}
		day := dayOf(in.At)
		ceilings, err := t.ceilings(a.scope, in.Budget, day)
		if err != nil {
			return err
		}
		if output, refusal = in.fitOutput(ceilings); refusal != nil {
			return nil
		}
		in.Usage.OutputTokens = output
		in.Usage.Cost, in.Usage.Unpriced = in.maxCost(output), in.Price == nil
		if err := t.insertUsage(a.scope, in.AttemptUsage, day, true); err != nil {
			return err
		}
		return t.addSpending(a.Tenant, day, in.Usage.Cost)
	})
	return output, refusal, err
}

// CheckBudget checks the budgets of a session and of its tenant for a request that belongs to no turn. It returns nil
// if the request fits, and a refusal otherwise. It reserves nothing. Key and Attempt of in are not read. ErrNotFound if
// the session does not exist.
func (db *DB) CheckBudget(ctx context.Context, session string, in ReserveInput) (refusal *fleet.Refusal, err error) {
	// It is a write, because ceilings may insert a row of the tenant's spending.
	err = db.write(ctx, fmt.Sprintf("checking the budget of session %q", session), func(t *tx) error {
		n, err := t.SessionRow(session)
		if err != nil {
			return err
		}
		in.Budget.Turn, in.Budget.TurnTokens = nil, nil
		ceilings, err := t.ceilings(scope{Session: n, Tenant: t.Tenant}, in.Budget, dayOf(in.At))
		if err == nil {
			_, refusal = in.fitOutput(ceilings)
		}
		return err
	})
	return refusal, err
}

// ceiling is one ceiling of a Budget, with the spending that counts for it, reservations included.
type ceiling struct {
	name      fleet.LimitName
	max, used int64 // tokens, or a turn.USD
	tokens    bool  // max and used are tokens
}

// ceilings returns the ceilings that b sets, each with its spending so far. day is the day of the request in UTC,
// "2006-01-02": it selects the periods of the tenant's ceilings.
func (t *tx) ceilings(sc scope, b Budget, day string) (list []ceiling, err error) {
	add := func(tokens, cost fleet.LimitName, maxTokens *int64, maxCost *turn.USD, used func() (turn.Usage, error)) {
		if err != nil || maxTokens == nil && maxCost == nil {
			return
		}
		var u turn.Usage
		u, err = used()
		if maxTokens != nil {
			list = append(list, ceiling{name: tokens, max: *maxTokens, used: u.Total(), tokens: true})
		}
		if maxCost != nil {
			list = append(list, ceiling{name: cost, max: int64(*maxCost), used: int64(u.Cost)})
		}
	}
	add(fleet.LimitTurnTokens, fleet.LimitTurnCost, b.TurnTokens, b.Turn, func() (turn.Usage, error) {
		u, err := turnUsage(t.querier, sc.Turn)
		return u.Add(turn.Usage{InputTokens: b.Subagents.Tokens, Cost: b.Subagents.Cost}), err
	})
	add(fleet.LimitSessionTokens, fleet.LimitSessionCost, b.SessionTokens, b.Session,
		func() (turn.Usage, error) { return sessionUsage(t.querier, sc.Session) })
	add("", fleet.LimitTenantCostPerDay, nil, b.TenantDay,
		func() (turn.Usage, error) { return t.spending(sc.Tenant, day, day) })
	add("", fleet.LimitTenantCostPerMonth, nil, b.TenantMonth,
		func() (turn.Usage, error) { return t.spending(sc.Tenant, monthOf(day), day) })
	return list, err
}

// sessionUsage returns the usage of a session's own turns and compactions.
func sessionUsage(q querier, session int64) (u turn.Usage, err error) {
	err = scanUsage(q.Row(`SELECT `+usageSums+` FROM used u WHERE u.session = ?`,
		session).Scan, &u)
	return u, err
}

// spending returns what a tenant has spent in a period; only Cost is set. day is "2006-01-02" in UTC, and period is
// the day itself or its month, "2006-01". If the period has no row yet, spending inserts one with the sum of what was
// used in the period so far; the condition on at excludes nothing that the one on day selects, but has an index. It
// locks the row until the transaction ends, because the caller decides by the sum whether another request may be sent.
func (t *tx) spending(tenant, period, day string) (u turn.Usage, err error) {
	begins, err := time.Parse(time.DateOnly, (period + "-01")[:len(time.DateOnly)]) // "2006-01" becomes "2006-01-01"
	if err != nil {
		return u, err
	}
	err = t.Exec(`INSERT INTO spending (tenant, period, cost)
		SELECT ?1, ?2, CAST(coalesce((SELECT sum(u.cost) FROM used u
			JOIN sessions s ON s.id = u.session WHERE u.at >= ?3 AND s.tenant = ?1 AND u.day BETWEEN ?4 AND ?5), 0) AS BIGINT)
		WHERE NOT EXISTS (SELECT 1 FROM spending WHERE tenant = ?1 AND period = ?2)
		ON CONFLICT DO NOTHING`, tenant, period, nanos(begins), dayOf(begins), day)
	if err != nil {
		return u, err
	}
	err = t.Row(`SELECT cost FROM spending WHERE tenant = ? AND period = ?`+t.Lock(), tenant, period).Scan(&u.Cost)
	return u, err
}

// maxCost returns the most that the attempt may cost with this many output tokens, or 0 if its price is unknown. It
// assumes that no input token is read from a cache, and that all are written to one if that costs more.
func (in ReserveInput) maxCost(output int64) turn.USD {
	if in.Price == nil {
		return 0
	}
	u := turn.Usage{InputTokens: in.Usage.InputTokens, OutputTokens: output}
	cached := u
	cached.CacheWriteTokens = u.InputTokens
	return max(in.Price.Cost(u), in.Price.Cost(cached))
}

// fitOutput returns the highest limit of output tokens, up to in.Output, with which the attempt stays below all
// ceilings. If in.Least output tokens exceed one of them, it returns 0 and the refusal of the first such ceiling. A
// ceiling that is used up refuses even an inference that costs nothing. An unknown price exceeds every ceiling in
// dollars.
func (in ReserveInput) fitOutput(ceilings []ceiling) (int64, *fleet.Refusal) {
	output, least := in.Output, min(in.Least, in.Output)
	for _, c := range ceilings {
		// left and needs are in the ceiling's unit; fits counts the output tokens that fit below this ceiling.
		left, needs, fits := c.max-c.used, int64(in.maxCost(least)), output
		if c.tokens {
			needs = in.Usage.InputTokens + least
			fits = left - in.Usage.InputTokens
		} else if costPerToken := int64(in.maxCost(1) - in.maxCost(0)); costPerToken > 0 {
			fits = (left - int64(in.maxCost(0))) / costPerToken
		}
		if needs > left || left <= 0 || in.Price == nil && !c.tokens {
			return 0, &fleet.Refusal{Limit: c.name, Used: c.used, Needs: needs, Max: c.max, Final: true}
		}
		output = min(output, fits)
	}
	return output, nil
}
