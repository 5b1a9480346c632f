package engine

import (
	"context"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows"
)

// deliveries returns the activities of the workflow Deliver. They send a message to its session with package client,
// like any other program, so that it starts a turn or is merged into the running one.
func (e *Engine) deliveries() *activities.Deliveries {
	clientOf := func(tenant string) *client.Client {
		return client.New(e.client, client.Options{
			Journal: e.journal, TaskQueue: e.cfg.Temporal.TaskQueue, Agent: config.DefaultAgent, Tenant: tenant,
			DataConverter: e.converter,
		})
	}
	return activities.NewDeliveries(activities.DeliveryOptions{
		RetryFor: e.cfg.Tuning.JournalRetryFor,
		Journal:  func(tenant string) activities.Deliverer { return e.journal.Tenant(tenant) },
		Running: func(ctx context.Context, in workflows.HandOverInput) (bool, error) {
			return clientOf(in.Tenant).Running(ctx, in.Session)
		},
		Send: func(ctx context.Context, in workflows.HandOverInput) (string, error) {
			t, err := clientOf(in.Tenant).Send(ctx, client.SendInput{
				Session: in.Session, Message: in.Message, Agent: in.Agent, Limits: in.Limits,
			})
			return t.ID, err
		},
	})
}
