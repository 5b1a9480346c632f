package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// scheduleDelete returns the command that deletes a schedule.
func scheduleDelete(a *app.App) *cobra.Command {
	return scheduleAction(a, "delete", "Delete a schedule; its running turns continue", func(ctx context.Context,
		t *app.TurnClient, name string) error {
		s, err := t.Client.Schedules().Delete(ctx, name)
		if err == nil {
			t.App.Aside("deleted schedule %s; its sessions remain%s", app.Line(name, client.MaxScheduleName), stillRunning(s))
		}
		return err
	})
}

// stillRunning returns the end of a message, which says that the schedule's running turn continues. It returns "" if no
// run is active.
func stillRunning(s client.Schedule) string {
	if !s.Active {
		return ""
	}
	return ", and its running turn continues"
}
