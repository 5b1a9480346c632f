package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

func (a *app) scheduleDeleteCommand() *cobra.Command {
	return a.scheduleAct("delete", "Delete a schedule; what it has begun goes on", func(ctx context.Context, t *turnClient, name string) error {
		s, err := t.client.Schedules().Delete(ctx, name)
		if err == nil {
			t.app.aside("schedule %s is deleted; its sessions stay%s", line(name, client.MaxScheduleName), underWay(s))
		}
		return err
	})
}

// underWay returns a note if a run of the schedule is active.
func underWay(s client.Schedule) string {
	if !s.Active {
		return ""
	}
	return ", and what is under way goes on"
}
