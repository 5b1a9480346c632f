package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

func (a *app) scheduleResumeCommand() *cobra.Command {
	return a.scheduleAction("resume", "Resume a paused schedule", func(ctx context.Context,
		t *turnClient, name string) error {
		_, err := t.client.Schedules().Resume(ctx, name, "resumed with the starter command")
		if err == nil {
			t.app.aside("resumed schedule %s", line(name, client.MaxScheduleName))
		}
		return err
	})
}
