package engine

import (
	"github.com/everturn/everturn/activities/capacity"
	"github.com/everturn/everturn/client"
)

// openCapacity starts the limiter that keeps this worker's inferences within the fleet limits.
func (e *Engine) openCapacity() *capacity.Limiter {
	e.capacity = capacity.New(capacity.Options{Journal: e.journal, Worker: e.id,
		Provider: client.ConfiguredLimits(e.cfg.ProviderLimits), Tenant: client.ConfiguredLimits(e.cfg.TenantLimits)})
	return e.capacity
}
