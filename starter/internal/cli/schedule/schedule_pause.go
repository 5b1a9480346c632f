package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// schedulePause returns the command that pauses a schedule.
func schedulePause(a *app.App) *cobra.Command {
	return scheduleAction(a, "pause", "Pause a schedule", func(ctx context.Context, t *app.TurnClient, name string) error {
		s, err := t.Client.Schedules().Pause(ctx, name, "paused with everturn command")
		if err == nil {
			t.App.Aside("paused schedule %s%s", app.Line(name, client.MaxScheduleName), stillRunning(s))
		}
		return err
	})
}
