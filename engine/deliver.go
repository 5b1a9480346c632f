package engine

import (
	"context"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/sessions"
	"github.com/everturn/everturn/workflows"
)

// deliveries take messages to sessions that are shared, as clients do.
func (e *Engine) deliveries() *activities.Deliveries {
	people := func(tenant string) *sessions.Client {
		return sessions.New(e.client, sessions.Options{
			TaskQueue: e.cfg.Temporal.TaskQueue, Agent: e.cfg.Runtime.Agent, Tenant: tenant, Blobs: e.journal.PutBlob,
		})
	}
	return activities.NewDeliveries(activities.DeliveryOptions{
		Journal: func(tenant string) activities.Deliverer { return journal.ForTenant(e.journal, tenant) },
		Running: func(ctx context.Context, in workflows.HandOverInput) (bool, error) {
			return people(in.Tenant).Running(ctx, in.Session)
		},
		Send: func(ctx context.Context, in workflows.HandOverInput) error {
			_, err := people(in.Tenant).Send(ctx, sessions.Request{Session: in.Session, Message: in.Message, Agent: in.Agent, Limits: in.Limits})
			return err
		},
	})
}
