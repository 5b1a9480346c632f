package journal

import (
	"context"
	"fmt"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/workflows/turn"
)

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
	UsageByModel: `u.provider || '/' || u.model`, UsageBySession: `s.session_id`, UsageByDay: `u.day`,
	UsageByTenant: `s.tenant`,
}

// UsageRow is the usage of one group.
type UsageRow struct {
	Key string `json:"key"`
	// Attempts counts the attempts of inferences and the compactions that the provider billed, as far as is known.
	Attempts int        `json:"attempts"`
	Turns    int        `json:"turns"`
	Usage    turn.Usage `json:"usage"`
}

// SessionUsage returns the usage of all attempts of the session's turns, and of its compactions. A fork does not count
// those of its shared past.
func (db *DB) SessionUsage(ctx context.Context, session string) (turn.Usage, error) {
	return tables.GetOfSession(ctx, db.tables, session, "reading the usage", func(q querier, n int64) (turn.Usage, error) {
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
	return tables.Get(ctx, db.tables, "reading the usage", func(q querier) ([]UsageRow, error) {
		where, args := ` WHERE u.at >= ?`, []any{tables.Nanos(since)}
		if by != UsageByTenant || q.Tenant != "" {
			where, args = where+` AND s.tenant = ?`, append(args, q.Tenant)
		}
		return tables.Collect(q, func(scan tables.Scanner) (r UsageRow, err error) {
			err = scanUsage(scan, &r.Usage, &r.Key, &r.Attempts, &r.Turns)
			return r, err
		}, `SELECT `+key+`, count(*), count(DISTINCT u.turn), `+usageSums+` FROM used u
			JOIN sessions s ON s.id = u.session`+where+` GROUP BY 1 ORDER BY 1`, args...)
	})
}
