package client

import (
	"context"
	"slices"
	"strings"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal/fleet"
)

// The limits of a scope.
const (
	LimitRequestsPerSecond = fleet.LimitRequestsPerSecond
	LimitRequestsPerMinute = fleet.LimitRequestsPerMinute
	LimitTokensPerMinute   = fleet.LimitTokensPerMinute
	LimitInFlight          = fleet.LimitInFlight
	LimitTokensPerDay      = fleet.LimitTokensPerDay
	LimitTokensPerMonth    = fleet.LimitTokensPerMonth
	LimitReserve           = fleet.LimitReserve
)

// defaultReserve is the percentage of the limits per second, per minute and in flight that scheduled turns leave to
// others.
const defaultReserve = 20

// ConfiguredLimits returns the limits of a section of the configuration.
func ConfiguredLimits(l config.FleetLimits) Limits {
	return Limits{
		LimitRequestsPerMinute: l.RequestsPerMinute,
		LimitTokensPerMinute:   l.TokensPerMinute, LimitInFlight: l.RequestsInFlight,
		LimitReserve: defaultReserve,
	}
}

// DefaultLimits returns the limits of a scope that the configuration sets. A model has none.
func DefaultLimits(cfg config.Config, scope string) Limits {
	switch {
	case IsTenantScope(scope):
		return ConfiguredLimits(cfg.TenantLimits)
	case strings.Contains(scope, "/"):
		return Limits{}
	}
	return ConfiguredLimits(cfg.ProviderLimits)
}

// LimitNames returns the names of all limits, in the order in which they are shown.
func LimitNames() []LimitName { return fleet.LimitNames() }

// TenantScope returns the scope of a tenant's limits.
func TenantScope(tenant string) string { return fleet.TenantScope(tenant) }

// IsTenantScope reports whether a scope is that of a tenant.
func IsTenantScope(scope string) bool { return fleet.IsTenantScope(scope) }

// DescribeScope returns the name of a scope for users.
func DescribeScope(scope string) string { return fleet.DescribeScope(scope) }

// LimitsOfScope are the fleet limits of a scope, with what is used of them.
type LimitsOfScope struct {
	LimitScope        // its Limits are only those that were set with SetFleetLimits
	Applied    Limits `json:"applied"` // all limits that apply, with the configured defaults
}

// ReadLimits returns the limits of the scopes that the journal has, and of the provider and the tenant of the
// configuration.
func ReadLimits(ctx context.Context, j Journal, cfg config.Config) ([]LimitsOfScope, error) {
	scopes, err := j.FleetScopes(ctx)
	for _, own := range []string{string(cfg.EffectiveLLM().Provider), TenantScope(cfg.Tenant)} {
		if !slices.ContainsFunc(scopes, func(s LimitScope) bool { return s.Scope == own }) {
			scopes = append(scopes, LimitScope{Scope: own, Limits: Limits{}})
		}
	}
	list := make([]LimitsOfScope, len(scopes))
	for i, s := range scopes {
		list[i] = LimitsOfScope{s, s.Limits.Over(DefaultLimits(cfg, s.Scope))}
	}
	return list, err
}
