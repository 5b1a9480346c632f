package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/workflows/turn"
)

// Budget are the ceilings that an inference must stay below. Nil means that there is none, and 0 that nothing is left.
type Budget struct {
	Turn, Session          *turn.USD
	SessionTokens          *int64
	TenantDay, TenantMonth *turn.USD // of UTC
}

// Empty reports whether there is no ceiling.
func (b Budget) Empty() bool { return b == Budget{} }

// The ceilings by name, in a BudgetRefusal. Each is the configuration's key.
const (
	BudgetTurn          fleet.LimitName = "max_cost_usd"
	BudgetSession       fleet.LimitName = "session_usd"
	BudgetSessionTokens fleet.LimitName = "session_tokens"
	BudgetTenantDay     fleet.LimitName = "tenant_usd_per_day"
	BudgetTenantMonth   fleet.LimitName = "tenant_usd_per_month"
)

// ReserveInput asks for what an attempt may use at most.
type ReserveInput struct {
	AttemptUsage             // Usage has the most input tokens; the rest of it is not read
	Price        *turn.Price // nil if unknown: every ceiling in dollars then refuses
	// Output is the wanted limit of output tokens, and Least the fewest that are of use.
	Output, Least int64
	Budget        Budget
}

// BudgetRefusal says which ceiling leaves too little for an inference. Amounts are in dollars or tokens.
type BudgetRefusal struct {
	Limit       fleet.LimitName
	Used, Needs string // of the least that the inference may use
	Max         string
}

func (r BudgetRefusal) String() string {
	return fmt.Sprintf("%s is %s, of which %s is used, and the inference may use %s", r.Limit, r.Max, r.Used, r.Needs)
}

// ReserveUsage reserves the most that an attempt may use, and returns how many output tokens that allows: at most
// in.Output. If not even in.Least fit, it reserves nothing and returns why. ErrStale, ErrClosed.
func (db *DB) ReserveUsage(ctx context.Context, in ReserveInput) (output int64, refusal *BudgetRefusal, err error) {
	err = db.write(ctx, stepName("reserving the budget of", in.Key), func(t *tx) error {
		a, err := t.LockedAttempt(in.Key)
		if err == nil {
			err = current(a, in.Attempt)
		}
		if err != nil {
			return err
		}
		old, err := usageRow(t.Querier, a.Turn, in.Key, in.row())
		if err != nil || old.there { // an earlier run of this transaction was committed
			output = old.output
			return err
		}
		day := dayOf(in.At)
		ceilings, err := t.ceilings(a.Scope, in.Budget, day)
		if err != nil {
			return err
		}
		if output, refusal = in.fit(ceilings); refusal != nil {
			return nil
		}
		in.Usage.OutputTokens = output
		in.Usage.Cost, in.Usage.Unpriced = in.worst(output), in.Price == nil
		if err := t.insertUsage(a.Scope, in.AttemptUsage, day, true); err != nil {
			return err
		}
		return t.addSpending(a.Tenant, day, in.Usage.Cost)
	})
	return output, refusal, err
}

// CheckBudget returns why a session's budget, or its tenant's, has no room for a request that belongs to no turn; nil if
// it has. It reserves nothing. Key and Attempt of in are not read.
func (db *DB) CheckBudget(ctx context.Context, session string, in ReserveInput) (refusal *BudgetRefusal, err error) {
	err = db.write(ctx, fmt.Sprintf("checking the budget of session %q", session), func(t *tx) error {
		n, err := t.SessionRow(session)
		if err != nil {
			return err
		}
		in.Budget.Turn = nil
		ceilings, err := t.ceilings(scope{Session: n, Tenant: t.Tenant}, in.Budget, dayOf(in.At))
		if err == nil {
			_, refusal = in.fit(ceilings)
		}
		return err
	})
	return refusal, err
}

// ceiling is one ceiling with what is used of it, in dollars or tokens.
type ceiling struct {
	name      fleet.LimitName
	max, used int64
	tokens    bool
}

func (t *tx) ceilings(sc scope, b Budget, day string) (list []ceiling, err error) {
	add := func(name fleet.LimitName, most *turn.USD, used func() (turn.Usage, error)) {
		if most != nil && err == nil {
			var u turn.Usage
			u, err = used()
			list = append(list, ceiling{name: name, max: int64(*most), used: int64(u.Cost)})
		}
	}
	session := func() (turn.Usage, error) { return sessionUsage(t.Querier, sc.Session) }
	add(BudgetTurn, b.Turn, func() (turn.Usage, error) { return turnUsage(t.Querier, sc.Turn) })
	add(BudgetSession, b.Session, session)
	if b.SessionTokens != nil && err == nil {
		var u turn.Usage
		u, err = session()
		list = append(list, ceiling{name: BudgetSessionTokens, max: *b.SessionTokens, used: u.Total(), tokens: true})
	}
	add(BudgetTenantDay, b.TenantDay, func() (turn.Usage, error) { return t.spending(sc.Tenant, day, day) })
	add(BudgetTenantMonth, b.TenantMonth, func() (turn.Usage, error) { return t.spending(sc.Tenant, monthOf(day), day) })
	return list, err
}

// sessionUsage returns the usage of a session's own turns.
func sessionUsage(q querier, session int64) (u turn.Usage, err error) {
	err = scanUsage(q.Row(`SELECT `+usageSums+` FROM used u WHERE u.session = ?`,
		session).Scan, &u)
	return u, err
}

// spending returns what a tenant has spent in the period of a day: the day itself or its month. If the period has no
// row yet, spending inserts one with the sum of what was used in the period so far. It locks the row, because the caller
// decides by the sum whether another request may be sent.
func (t *tx) spending(tenant, period, day string) (u turn.Usage, err error) {
	begins, err := time.Parse(time.DateOnly, (period + "-01")[:len(time.DateOnly)])
	if err != nil {
		return u, err
	}
	err = t.Exec(`INSERT INTO spending (tenant, period, cost)
		SELECT ?1, ?2, CAST(coalesce((SELECT sum(u.cost) FROM used u
			JOIN sessions s ON s.id = u.session WHERE u.at >= ?3 AND s.tenant = ?1 AND u.day BETWEEN ?4 AND ?5), 0) AS BIGINT)
		WHERE NOT EXISTS (SELECT 1 FROM spending WHERE tenant = ?1 AND period = ?2)
		ON CONFLICT DO NOTHING`, tenant, period, tables.Nanos(begins), dayOf(begins), day)
	if err != nil {
		return u, err
	}
	err = t.Row(`SELECT cost FROM spending WHERE tenant = ? AND period = ?`+t.Lock(), tenant, period).Scan(&u.Cost)
	return u, err
}

// worst returns the most that the attempt may cost with this many output tokens: no token is read from a cache, and all
// are written to one if that is dearer.
func (in ReserveInput) worst(output int64) turn.USD {
	if in.Price == nil {
		return 0
	}
	u := turn.Usage{InputTokens: in.Usage.InputTokens, OutputTokens: output}
	written := u
	written.CacheWriteTokens = u.InputTokens
	return max(in.Price.Cost(u), in.Price.Cost(written))
}

// fit returns the output tokens that fit below all ceilings, or the refusal of the first one below which not even
// in.Least fit.
func (in ReserveInput) fit(ceilings []ceiling) (int64, *BudgetRefusal) {
	output, least := in.Output, min(in.Least, in.Output)
	for _, c := range ceilings {
		left, needs, fits := c.max-c.used, int64(in.worst(least)), output
		if c.tokens {
			needs = in.Usage.InputTokens + least
			fits = left - in.Usage.InputTokens
		} else if rate := int64(in.worst(1) - in.worst(0)); rate > 0 {
			fits = (left - int64(in.worst(0))) / rate
		}
		if needs > left || left <= 0 || in.Price == nil && !c.tokens {
			return 0, c.refusal(needs)
		}
		output = min(output, fits)
	}
	return output, nil
}

func (c ceiling) refusal(needs int64) *BudgetRefusal {
	show := func(n int64) string {
		if c.tokens {
			return fmt.Sprintf("%d tokens", n)
		}
		return turn.USD(n).String()
	}
	return &BudgetRefusal{Limit: c.name, Used: show(c.used), Needs: show(needs), Max: show(c.max)}
}
