package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// scheduleTrigger returns the command that runs a schedule once.
func scheduleTrigger(a *app.App) *cobra.Command {
	return scheduleAction(a, "trigger", "Run a schedule once now", func(ctx context.Context,
		t *app.TurnClient, name string) error {
		s, err := t.Client.Schedules().Trigger(ctx, name)
		switch {
		case err != nil:
			return err
		case s.Active:
			t.App.Note("the last run of schedule %s has not ended, so this run is skipped unless it ends right now",
				app.Line(name, client.MaxScheduleName))
		default:
			t.App.Aside("triggered schedule %s; `everturn schedule list` shows the result",
				app.Line(name, client.MaxScheduleName))
		}
		return nil
	})
}
