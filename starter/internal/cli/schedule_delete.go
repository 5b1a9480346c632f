package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

func (a *app) scheduleDeleteCommand() *cobra.Command {
	return a.scheduleAction("delete", "Delete a schedule; its running turns continue", func(ctx context.Context,
		t *turnClient, name string) error {
		s, err := t.client.Schedules().Delete(ctx, name)
		if err == nil {
			t.app.aside("deleted schedule %s; its sessions remain%s", line(name, client.MaxScheduleName), stillRunning(s))
		}
		return err
	})
}

// stillRunning returns a note if a run of the schedule is active.
func stillRunning(s client.Schedule) string {
	if !s.Active {
		return ""
	}
	return ", and its running turn continues"
}
