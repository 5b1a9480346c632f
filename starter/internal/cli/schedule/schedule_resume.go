package schedule

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// scheduleResume returns the command that resumes a paused schedule.
func scheduleResume(a *app.App) *cobra.Command {
	return scheduleAction(a, "resume", "Resume a paused schedule", func(ctx context.Context,
		t *app.TurnClient, name string) error {
		_, err := t.Client.Schedules().Resume(ctx, name, "resumed with everturn command")
		if err == nil {
			t.App.Aside("resumed schedule %s", app.Line(name, client.MaxScheduleName))
		}
		return err
	})
}
