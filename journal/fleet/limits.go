package fleet

import (
	"maps"
	"slices"
	"strings"
	"time"
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

// The limits of what a turn, a session or a tenant may use, in a Refusal. Each is the configuration's key.
const (
	LimitTurnTokens         LimitName = "max_tokens"
	LimitTurnCost           LimitName = "max_cost_usd"
	LimitSessionTokens      LimitName = "session_tokens"
	LimitSessionCost        LimitName = "session_usd"
	LimitTenantCostPerDay   LimitName = "tenant_usd_per_day"
	LimitTenantCostPerMonth LimitName = "tenant_usd_per_month"
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

	row *Row
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
	return Rows{s.Scope: r}.check(CapacityRequest{Scopes: []string{s.Scope}, Tokens: 1}, s.at)
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

// Scopes returns all scopes of the input, sorted, so that transactions lock them in the same order.
func (in CapacityInput) Scopes() []string {
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

// Counts reports whether the input counts in a scope for which the limits set are set: requests are counted only in
// scopes that have limits, and a provider's Retry-After in all.
func (in CapacityInput) Counts(scope string, set Limits) bool {
	return set.Over(in.Defaults[scope]).limited() || in.RetryAfter[scope] > 0
}
