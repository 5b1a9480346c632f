package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

func (a *app) scheduleTriggerCommand() *cobra.Command {
	return a.scheduleAct("trigger", "Let a schedule come due now, as well", func(ctx context.Context, t *turnClient, name string) error {
		s, err := t.client.Schedules().Trigger(ctx, name)
		switch {
		case err != nil:
			return err
		case s.Active:
			t.app.note("the last time of schedule %s is not over, so this one is left out unless it ends this moment", line(name, client.MaxScheduleName))
		default:
			t.app.aside("schedule %s comes due; `starter schedule list` shows what comes of it", line(name, client.MaxScheduleName))
		}
		return nil
	})
}
