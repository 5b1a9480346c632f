package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

func (a *app) scheduleTriggerCommand() *cobra.Command {
	return a.scheduleAction("trigger", "Run a schedule once now", func(ctx context.Context,
		t *turnClient, name string) error {
		s, err := t.client.Schedules().Trigger(ctx, name)
		switch {
		case err != nil:
			return err
		case s.Active:
			t.app.note("the last run of schedule %s has not ended, so this run is skipped unless it ends right now",
				line(name, client.MaxScheduleName))
		default:
			t.app.aside("triggered schedule %s; `starter schedule list` shows the result", line(name, client.MaxScheduleName))
		}
		return nil
	})
}
