package engine

import (
	"context"

	"github.com/everturn/everturn/activities"
	"github.com/everturn/everturn/sessions"
	"github.com/everturn/everturn/workflows"
)

// deliveries take messages to sessions that are shared, as clients do.
func (e *Engine) deliveries() *activities.Deliveries {
	people := sessions.New(e.client, sessions.Options{TaskQueue: e.cfg.Temporal.TaskQueue, Agent: e.cfg.Runtime.Agent, Blobs: e.journal.PutBlob})
	return activities.NewDeliveries(activities.DeliveryOptions{
		Journal: e.journal, Running: people.Running,
		Send: func(ctx context.Context, in workflows.HandOverInput) error {
			_, err := people.Send(ctx, sessions.Request{Session: in.Session, Message: in.Message, Agent: in.Agent, Limits: in.Limits})
			return err
		},
	})
}
