package engine

import (
	"context"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/workflows"
)

// deliveries sends messages to shared sessions, as clients do.
func (e *Engine) deliveries() *activities.Deliveries {
	sessions := func(tenant string) *client.Client {
		return client.New(e.client, client.Options{
			Journal: e.journal, TaskQueue: e.cfg.Temporal.TaskQueue, Agent: e.cfg.Runtime.Agent, Tenant: tenant,
			DataConverter: e.converter,
		})
	}
	return activities.NewDeliveries(activities.DeliveryOptions{
		RetryFor: e.cfg.Journal.RetryFor,
		Journal:  func(tenant string) activities.Deliverer { return e.journal.Tenant(tenant) },
		Running: func(ctx context.Context, in workflows.HandOverInput) (bool, error) {
			return sessions(in.Tenant).Running(ctx, in.Session)
		},
		Send: func(ctx context.Context, in workflows.HandOverInput) (string, error) {
			t, err := sessions(in.Tenant).Send(ctx, client.SendInput{
				Session: in.Session, Message: in.Message, Agent: in.Agent, Limits: in.Limits,
			})
			return t.ID, err
		},
	})
}
