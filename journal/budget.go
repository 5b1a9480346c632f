package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
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
			output = old.usage.OutputTokens
			return err
		}
		day := dayOf(in.At)
		ceilings, err := t.lockCeilings(a.scope, in.Budget, day)
		if err != nil {
			return err
		}
		if output, refusal = in.fitOutput(ceilings); refusal != nil {
			return nil
		}
		in.Usage.OutputTokens = output
		in.Usage.Cost, in.Usage.Unpriced = in.maxCost(output), in.Price == nil
		if err := t.insertUsage(a.scope, in.AttemptUsage, day, true /* replaceable */); err != nil {
			return err
		}
		return t.addSpending(a.scope, day, in.Usage, turn.Usage{})
	})
	return output, refusal, err
}

// CheckBudget checks the budgets of a session and of its tenant for a request that belongs to no turn. It returns nil
// if the request fits, and a refusal otherwise. It reserves nothing. Key and Attempt of in are not read. ErrNotFound if
// the session does not exist.
func (db *DB) CheckBudget(ctx context.Context, session string, in ReserveInput) (refusal *fleet.Refusal, err error) {
	// It is a write, because lockCeilings may insert a row of the tenant's spending.
	err = db.write(ctx, fmt.Sprintf("checking the budget of session %q", session), func(t *tx) error {
		n, err := t.SessionRow(session)
		if err != nil {
			return err
		}
		in.Budget.Turn, in.Budget.TurnTokens = nil, nil
		ceilings, err := t.lockCeilings(scope{Session: n, Tenant: t.Tenant}, in.Budget, dayOf(in.At))
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

// lockCeilings locks the accounts of spending that b bounds, inserts the missing ones, and returns the ceilings that b
// sets, each with its spending so far. day is the day of the request in UTC,
// "2006-01-02": it selects the periods of the tenant's ceilings.
func (t *tx) lockCeilings(sc scope, b Budget, day string) (list []ceiling, err error) {
	add := func(tokens, cost fleet.LimitName, maxTokens *int64, maxCost *turn.USD, used turn.Usage) {
		if maxTokens != nil {
			list = append(list, ceiling{name: tokens, max: *maxTokens, used: used.Total(), tokens: true})
		}
		if maxCost != nil {
			list = append(list, ceiling{name: cost, max: int64(*maxCost), used: int64(used.Cost)})
		}
	}
	if b.Turn != nil || b.TurnTokens != nil {
		used, err := turnUsage(t.querier, sc.Turn)
		if err != nil {
			return nil, err
		}
		used = used.Add(turn.Usage{InputTokens: b.Subagents.Tokens, Cost: b.Subagents.Cost})
		add(fleet.LimitTurnTokens, fleet.LimitTurnCost, b.TurnTokens, b.Turn, used)
	}
	var accounts []string
	session := ""
	if b.Session != nil || b.SessionTokens != nil {
		if err := t.Row(`SELECT `+accountOf("?"), sc.Session).Scan(&session); err != nil {
			return nil, err
		}
		accounts = append(accounts, session)
	}
	if b.TenantDay != nil {
		accounts = append(accounts, day)
	}
	if b.TenantMonth != nil {
		accounts = append(accounts, monthOf(day))
	}
	used, err := t.balances(sc.Tenant, accounts)
	if err != nil {
		return nil, err
	}
	add(fleet.LimitSessionTokens, fleet.LimitSessionCost, b.SessionTokens, b.Session, used[session])
	add("", fleet.LimitTenantCostPerDay, nil, b.TenantDay, used[day])
	add("", fleet.LimitTenantCostPerMonth, nil, b.TenantMonth, used[monthOf(day)])
	return list, nil
}

// The table spending has the sums of what was used, reservations included, one row for each account of a tenant: its
// days and months of UTC, "2006-01-02" and "2006-01", and its sessions, "session:" with the ID of the session, each
// with all sessions of subagents below it. An account is opened when a budget first needs it.
const sessionAccount = "session:"

// accountOf returns an SQL expression of the account of the session whose row the SQL expression gives: that of the
// session above it that no other session has called. If the journal lacks a session between, it is the session's own.
func accountOf(expression string) string {
	return `(WITH RECURSIVE up (tenant, session_id, caller, level) AS (
			SELECT s1.tenant, s1.session_id, s1.caller_session, 0 FROM sessions s1 WHERE s1.id = ` + expression + `
			UNION SELECT s1.tenant, s1.session_id, s1.caller_session, up.level + 1 FROM up JOIN sessions s1
				ON s1.tenant = up.tenant AND s1.session_id = up.caller WHERE up.caller <> '' AND up.level < 100)
		SELECT '` + sessionAccount + `' || session_id FROM up ORDER BY caller = '' DESC, level LIMIT 1)`
}

// balances returns what was used of the accounts. It locks them until the transaction ends, because the caller decides
// by the sums whether another request may be sent.
func (t *tx) balances(tenant string, accounts []string) (used map[string]turn.Usage, err error) {
	slices.Sort(accounts) // so that concurrent transactions lock them in the same order
	for _, account := range accounts {
		var u turn.Usage
		read := func() error {
			return t.Row(`SELECT tokens, cost FROM spending WHERE tenant = ? AND account = ?`+t.Lock(), tenant, account).
				Scan(&u.InputTokens, &u.Cost)
		}
		if err = read(); errors.Is(err, sql.ErrNoRows) {
			if err = t.openAccount(tenant, account); err == nil {
				err = read()
			}
		}
		if err != nil {
			return nil, err
		}
		if used == nil {
			used = map[string]turn.Usage{}
		}
		used[account] = u
	}
	return used, nil
}

// openAccount inserts an account with the sum of what was used so far.
func (t *tx) openAccount(tenant, account string) error {
	used, err := t.usageOfAccount(tenant, account)
	if err != nil {
		return err
	}
	return t.Exec(`INSERT INTO spending (tenant, account, tokens, cost) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, tenant,
		account, used.Total(), int64(used.Cost))
}

// usageOfAccount sums what counts for an account. The condition on at excludes nothing that the one on day selects, but
// has an index.
func (t *tx) usageOfAccount(tenant, account string) (u turn.Usage, err error) {
	if session, ok := strings.CutPrefix(account, sessionAccount); ok {
		var n int64
		err := t.Row(`SELECT id FROM sessions WHERE tenant = ? AND session_id = ?`, tenant, session).Scan(&n)
		if err != nil {
			return u, err
		}
		return sessionUsage(t.querier, n)
	}
	begins, err := time.Parse(time.DateOnly, (account + "-01")[:len(time.DateOnly)]) // "2006-01" becomes "2006-01-01"
	if err != nil {
		return u, err
	}
	// the days of a month are between "2006-01-01" and "2006-01-99"
	err = scanUsage(t.Row(`SELECT `+usageSums+` FROM used u JOIN sessions s ON s.id = u.session
		WHERE u.at >= ? AND s.tenant = ? AND u.day BETWEEN ? AND ?`, nanos(begins), tenant, dayOf(begins), account+"-99").Scan, &u)
	return u, err
}

// addSpending adds what was used to the accounts of a session and of its tenant that are open, in place of what was
// reserved.
func (t *tx) addSpending(sc scope, day string, used, reserved turn.Usage) error {
	tokens, cost := used.Total()-reserved.Total(), used.Cost-reserved.Cost
	if tokens == 0 && cost == 0 {
		return nil
	}
	return t.Exec(`UPDATE spending SET tokens = tokens + ?1, cost = cost + ?2 WHERE tenant = ?3 AND account IN (?4, ?5, `+
		accountOf("?6")+`)`, tokens, int64(cost), sc.Tenant, day, monthOf(day), sc.Session)
}

// sessionUsage returns the usage of a session's turns and compactions, and of those of its subagents.
func sessionUsage(q querier, session int64) (sum turn.Usage, err error) {
	sessions, err := column[int64](q, allBelow("?"), session)
	for _, n := range sessions {
		var u turn.Usage
		if err == nil {
			err = scanUsage(q.Row(`SELECT `+usageSums+` FROM used u WHERE u.session = ?`, n).Scan, &u)
		}
		sum = sum.Add(u)
	}
	return sum, err
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
