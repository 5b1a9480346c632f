package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
)

func (a *app) scheduleResumeCommand() *cobra.Command {
	return a.scheduleAct("resume", "Let a paused schedule go on", func(ctx context.Context, t *turnClient, name string) error {
		_, err := t.client.Schedules().Resume(ctx, name, "resumed by a person")
		if err == nil {
			t.app.aside("schedule %s goes on", line(name, client.MaxScheduleName))
		}
		return err
	})
}
