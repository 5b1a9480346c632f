package engine

import (
	"math"

	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows/turn"
)

// Budget converts a configured budget to that of the journal.
func Budget(b config.Budget) journal.Budget {
	return journal.Budget{Session: usd(b.SessionUSD), SessionTokens: b.SessionTokens, TenantDay: usd(b.TenantUSDPerDay),
		TenantMonth: usd(b.TenantUSDPerMonth)}
}

func usd(dollars *float64) *turn.USD {
	if dollars == nil {
		return nil
	}
	amount := turn.USD(math.Round(*dollars * float64(turn.Dollar)))
	return &amount
}

// openCapacity starts the limiter that keeps this worker's inferences within the fleet limits.
func (e *Engine) openCapacity() *capacity.Limiter {
	e.capacity = capacity.New(capacity.Options{Journal: e.journal, Worker: e.id,
		Provider: FleetLimits(e.cfg.ProviderLimits), Tenant: FleetLimits(e.cfg.TenantLimits)})
	return e.capacity
}

// FleetLimits converts configured limits to those of the journal.
func FleetLimits(l config.FleetLimits) fleet.Limits {
	return fleet.Limits{
		fleet.LimitRequestsPerSecond: l.RequestsPerSecond, fleet.LimitRequestsPerMinute: l.RequestsPerMinute,
		fleet.LimitTokensPerMinute: l.TokensPerMinute, fleet.LimitInFlight: l.RequestsInFlight,
		fleet.LimitTokensPerDay: l.TokensPerDay, fleet.LimitTokensPerMonth: l.TokensPerMonth,
		fleet.LimitReserve: l.InteractiveReserve,
	}
}
