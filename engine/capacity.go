package engine

import (
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal/fleet"
)

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
