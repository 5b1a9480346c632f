package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/journal/internal/tables"
	"github.com/everturn/everturn/journal/record"
)

// Limits are the limits of a scope by name. 0 means no limit; a limit that is missing has its default.
type Limits map[LimitName]int64

// LimitName names a fleet limit.
type LimitName string

// The fleet limits.
const (
	LimitRequestsPerSecond LimitName = "requests_per_second"
	LimitRequestsPerMinute LimitName = "requests_per_minute"
	LimitTokensPerMinute   LimitName = "tokens_per_minute"
	LimitInFlight          LimitName = "requests_in_flight"
	LimitTokensPerDay      LimitName = "tokens_per_day"   // of UTC
	LimitTokensPerMonth    LimitName = "tokens_per_month" // of UTC
	// LimitReserve is the percentage of the limits above, except of those per day and month, that background turns
	// may not use.
	LimitReserve LimitName = "interactive_reserve"
	// LimitPause and LimitRetryAfter occur only in a Refusal, and cannot be set: an operator has paused the scope, or
	// its provider has refused a request with a Retry-After.
	LimitPause      LimitName = "pause"
	LimitRetryAfter LimitName = "retry_after"
)

// LimitNames returns the limits that can be set, in the order in which they are shown.
func LimitNames() []LimitName {
	return []LimitName{LimitRequestsPerSecond, LimitRequestsPerMinute, LimitTokensPerMinute, LimitInFlight,
		LimitTokensPerDay, LimitTokensPerMonth, LimitReserve}
}

// Over returns the limits with defaults for those that are missing.
func (l Limits) Over(defaults Limits) Limits {
	all := maps.Clone(defaults)
	if all == nil {
		all = Limits{}
	}
	maps.Copy(all, l)
	return all
}

// limited reports whether any limit is set. A reserve alone limits nothing.
func (l Limits) limited() bool {
	for name, n := range l {
		if name != LimitReserve && n > 0 {
			return true
		}
	}
	return false
}

const tenantScope = "tenant:"

// ProviderScope returns the scope of a provider, or of one of its models.
func ProviderScope(provider, model string) string {
	if model == "" {
		return provider
	}
	return provider + "/" + model
}

// TenantScope returns the scope of a tenant. The default tenant is "tenant:default".
func TenantScope(tenant string) string {
	if tenant == "" {
		tenant = "default"
	}
	return tenantScope + tenant
}

// IsTenantScope reports whether a scope is that of a tenant.
func IsTenantScope(scope string) bool { return strings.HasPrefix(scope, tenantScope) }

// DescribeScope returns the name of a scope for messages, such as "model m of provider p".
func DescribeScope(scope string) string {
	if tenant, ok := strings.CutPrefix(scope, tenantScope); ok {
		return "tenant " + tenant
	}
	if provider, model, ok := strings.Cut(scope, "/"); ok {
		return "model " + model + " of provider " + provider
	}
	return "provider " + scope
}

// Pause stops the requests of a scope for some time.
type Pause struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until"`
}

// ScopeState is the state of a scope in the journal at one moment.
type ScopeState struct {
	Scope     string    `json:"scope"`
	Limits    Limits    `json:"limits"`              // those that were set; the defaults are in configurations
	Pause     *Pause    `json:"pause,omitempty"`     // nil if the scope is not paused now
	NotBefore time.Time `json:"not_before,omitzero"` // the end of the provider's Retry-After; zero if it has passed
	Usage     Usage     `json:"usage"`

	row *fleetRow
	at  time.Time
}

// Applies reports whether requests of the scope need capacity from the journal, because the scope has limits or is
// paused. Otherwise they may be sent at once.
func (s ScopeState) Applies(defaults Limits) bool {
	return s.Pause != nil || !s.NotBefore.IsZero() || s.Limits.Over(defaults).limited()
}

// Refusal returns the refusal that another small request of the scope would have got when the state was read; nil if it
// would have been granted.
func (s ScopeState) Refusal(defaults Limits) *Refusal {
	r := s.row
	if r == nil { // the journal does not have the scope
		return nil
	}
	r.effective = s.Limits.Over(defaults)
	return fleetRows{s.Scope: r}.check(CapacityRequest{Scopes: []string{s.Scope}, Tokens: 1}, s.at)
}

// Usage is what all workers use of a scope. It is counted while the scope has limits.
type Usage struct {
	RequestsLastSecond int64 `json:"requests_last_second"`
	RequestsLastMinute int64 `json:"requests_last_minute"`
	TokensLastMinute   int64 `json:"tokens_last_minute"`
	RequestsInFlight   int64 `json:"requests_in_flight"`
	TokensToday        int64 `json:"tokens_today"`
	TokensThisMonth    int64 `json:"tokens_this_month"`
}

// FleetScopes returns the states of the named scopes, or of all scopes if no names are given, ordered by name. It
// leaves out scopes that the journal does not have.
func (f Fleet) FleetScopes(ctx context.Context, names ...string) ([]ScopeState, error) {
	return tables.Get(ctx, f.tables, "reading the fleet limits", func(q tables.Querier) (out []ScopeState, err error) {
		now, err := now(q)
		if err != nil {
			return nil, err
		}
		rows, err := readScopes(q, names, "")
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			out = append(out, rows[name].state(now))
		}
		return out, err
	})
}

// SetFleetLimits sets limits of a scope. A negative number removes a limit, so that its default applies again.
func (f Fleet) SetFleetLimits(ctx context.Context, scope string, limits Limits) error {
	return f.changeScope(ctx, "setting the limits of "+scope, scope, func(r *fleetRow, _ time.Time) {
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
func (f Fleet) PauseScope(ctx context.Context, scope, by, reason string, pause time.Duration) (p Pause, err error) {
	err = f.changeScope(ctx, "pausing "+scope, scope, func(r *fleetRow, now time.Time) {
		p = Pause{By: record.CleanText(by), Reason: record.CleanText(reason), Until: now.Add(pause)}
		r.pause = &p
	})
	return p, err
}

// ResumeScope ends the pause of a scope, and also the one that its provider requested with Retry-After. It reports
// whether there was either.
func (f Fleet) ResumeScope(ctx context.Context, scope string) (waited bool, err error) {
	err = f.changeScope(ctx, "resuming "+scope, scope, func(r *fleetRow, now time.Time) {
		state := r.state(now)
		waited = state.Pause != nil || !state.NotBefore.IsZero()
		r.pause, r.notBefore = nil, time.Time{}
	})
	return waited, err
}

// changeScope applies change to the row of a scope, which is locked, and created if it is missing. change gets the
// database's time.
func (f Fleet) changeScope(ctx context.Context, doing, scope string, change func(*fleetRow, time.Time)) error {
	return f.tables.Write(ctx, doing, func(t *tables.Tx) error {
		if err := record.CheckID("scope", scope); err != nil {
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

// CapacityInput is the input of LeaseCapacity: the requests that wait in one worker, and those that have ended.
type CapacityInput struct {
	Worker   string            // the ID of the process; its requests in flight are counted for LeaseExpiry
	Defaults map[string]Limits // of the worker's configuration, by scope
	Requests []CapacityRequest // the most urgent first
	Ended    []EndedRequest    // granted requests that have ended, each once
	// InFlight are the worker's requests in flight by scope, without Requests and Ended.
	InFlight map[string]int64
	// RetryAfter are the pauses that providers have requested with Retry-After, by scope.
	RetryAfter map[string]time.Duration
}

// LeaseExpiry is how long requests in flight count after the last LeaseCapacity of their worker. A worker that runs
// calls it much more often.
const LeaseExpiry = 30 * time.Second

// CapacityRequest is one request to a provider.
type CapacityRequest struct {
	Scopes     []string
	Tokens     int64 // an estimate of what it will use
	Background bool  // a scheduled turn, which leaves LimitReserve to others
}

// EndedRequest is a granted request that has ended, with the tokens that it used.
type EndedRequest struct {
	Scopes   []string
	At       time.Time // CapacityResult.At of its grant
	Reserved int64     // CapacityRequest.Tokens
	Used     int64     // tokens
}

// CapacityResult says which requests may be sent.
type CapacityResult struct {
	At       time.Time  // when they were decided, by the database's clock
	Read     time.Time  // the same moment by this process's clock
	Refusals []*Refusal // one for each of CapacityInput.Requests; nil if the request may be sent now
}

// LeaseCapacity grants or refuses each request, and records the requests that have ended. A granted request counts as
// sent from now on, even if the reply of the transaction is lost and the worker does not send it. Requests are counted
// only in scopes that have limits.
func (f Fleet) LeaseCapacity(ctx context.Context, in CapacityInput) (out CapacityResult, err error) {
	err = f.tables.Write(ctx, "leasing capacity of the fleet limits", func(t *tables.Tx) error {
		rows, now, err := lockScopes(t, in.scopes(), func(scope string) bool {
			return in.Defaults[scope].limited() || in.RetryAfter[scope] > 0
		})
		if err != nil {
			return err
		}
		for scope, r := range rows {
			r.effective = r.Limits.Over(in.Defaults[scope])
		}
		out = rows.lease(in, now, t.Again())
		for _, scope := range slices.Sorted(maps.Keys(rows)) {
			if r := rows[scope]; r.effective.limited() || in.RetryAfter[scope] > 0 {
				if err := saveScope(t, r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return out, err
}

// scopes returns all scopes of the input, sorted, so that transactions lock them in the same order.
func (in CapacityInput) scopes() []string {
	set := map[string]bool{}
	for _, r := range in.Requests {
		for _, s := range r.Scopes {
			set[s] = true
		}
	}
	for _, e := range in.Ended {
		for _, s := range e.Scopes {
			set[s] = true
		}
	}
	for s := range in.InFlight {
		set[s] = true
	}
	for s := range in.RetryAfter {
		set[s] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// lockScopes locks and returns the rows of scopes, or all rows if scopes is empty, and the database's time once they
// are locked. It creates a missing row if create returns true for its scope. The scopes must be sorted, so that
// concurrent transactions lock them in the same order.
func lockScopes(t *tables.Tx, scopes []string, create func(scope string) bool) (fleetRows, time.Time, error) {
	rows, err := readScopes(t.Querier, scopes, t.Lock())
	missing := false
	for _, scope := range scopes {
		if err == nil && create(scope) && rows[scope] == nil {
			missing = true
			err = t.Exec(`INSERT INTO fleet_limits (scope, limits, usage, pause, not_before) VALUES (?, '{}', '{}', '', 0)
				ON CONFLICT DO NOTHING`, scope)
		}
	}
	if err == nil && missing { // lock the new rows, too
		rows, err = readScopes(t.Querier, scopes, t.Lock())
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	now, err := now(t.Querier)
	return rows, now, err
}

// now returns the time of the database's clock.
func now(q tables.Querier) (time.Time, error) {
	var now int64
	err := q.Row(`SELECT now FROM clock`).Scan(&now)
	return tables.Instant(now), err
}

// readScopes returns the rows of the named scopes, or of all scopes if there are no names, without their effective
// limits. lock is the clause that locks the rows, or empty.
func readScopes(q tables.Querier, names []string, lock string) (fleetRows, error) {
	where, args := "", []any{}
	if len(names) > 0 {
		where = ` WHERE scope IN (` + strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ") + `)`
		for _, n := range names {
			args = append(args, n)
		}
	}
	rows := fleetRows{}
	err := q.Each(func(row tables.Rows) error {
		r := &fleetRow{Limits: Limits{}}
		var limits, usage, pause string
		var notBefore int64
		err := row.Scan(&r.name, &limits, &usage, &pause, &notBefore)
		if err == nil {
			err = errors.Join(json.Unmarshal([]byte(limits), &r.Limits), json.Unmarshal([]byte(usage), &r.used))
		}
		if err == nil && pause != "" {
			err = json.Unmarshal([]byte(pause), &r.pause)
		}
		if err != nil {
			return fmt.Errorf("scope %s: %w", r.name, err)
		}
		r.notBefore = tables.Instant(notBefore)
		rows[r.name] = r
		return nil
	}, `SELECT scope, limits, usage, pause, not_before FROM fleet_limits`+where+` ORDER BY scope`+lock, args...)
	return rows, err
}

// saveScope writes the row of a scope.
func saveScope(t *tables.Tx, r *fleetRow) error {
	pause := ""
	if r.pause != nil {
		pause = string(record.MustJSON(r.pause))
	}
	return t.Exec(`UPDATE fleet_limits SET limits = ?, usage = ?, pause = ?, not_before = ? WHERE scope = ?`,
		string(record.MustJSON(r.Limits)), string(record.MustJSON(r.used)), pause, tables.Nanos(r.notBefore), r.name)
}
