package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

func (a *app) schedulePauseCommand() *cobra.Command {
	return a.scheduleAct("pause", "Let a schedule rest", func(ctx context.Context, t *turnClient, name string) error {
		s, err := t.client.Schedules().Pause(ctx, name, "paused by a person")
		if err == nil {
			t.app.aside("schedule %s is paused%s", line(name, client.MaxScheduleName), underWay(s))
		}
		return err
	})
}
