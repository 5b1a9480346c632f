package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

func (a *app) schedulePauseCommand() *cobra.Command {
	return a.scheduleAction("pause", "Pause a schedule", func(ctx context.Context, t *turnClient, name string) error {
		s, err := t.client.Schedules().Pause(ctx, name, "paused with the starter command")
		if err == nil {
			t.app.aside("paused schedule %s%s", line(name, client.MaxScheduleName), stillRunning(s))
		}
		return err
	})
}
