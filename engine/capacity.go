package engine

import (
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/journal"
)

// openCapacity starts the limiter that keeps this worker's inferences within the fleet limits.
func (e *Engine) openCapacity() *capacity.Limiter {
	e.capacity = capacity.New(capacity.Options{Journal: e.journal, Worker: e.id,
		Provider: FleetLimits(e.cfg.ProviderLimits), Tenant: FleetLimits(e.cfg.TenantLimits)})
	return e.capacity
}

// FleetLimits converts configured limits to those of the journal.
func FleetLimits(l config.FleetLimits) journal.FleetLimits {
	return journal.FleetLimits{
		journal.LimitRequestsPerSecond: l.RequestsPerSecond, journal.LimitRequestsPerMinute: l.RequestsPerMinute,
		journal.LimitTokensPerMinute: l.TokensPerMinute, journal.LimitInFlight: l.RequestsInFlight,
		journal.LimitTokensPerDay: l.TokensPerDay, journal.LimitTokensPerMonth: l.TokensPerMonth,
		journal.LimitReserve: l.InteractiveReserve,
	}
}
