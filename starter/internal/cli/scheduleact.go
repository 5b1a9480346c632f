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

func (a *app) schedulePauseCommand() *cobra.Command {
	return a.scheduleAct("pause", "Let a schedule rest", func(ctx context.Context, t *turnClient, name string) error {
		s, err := t.client.Schedules().Pause(ctx, name, "paused by a person")
		if err == nil {
			t.app.aside("schedule %s is paused%s", line(name, client.MaxScheduleName), underWay(s))
		}
		return err
	})
}

func (a *app) scheduleResumeCommand() *cobra.Command {
	return a.scheduleAct("resume", "Let a paused schedule go on", func(ctx context.Context, t *turnClient, name string) error {
		_, err := t.client.Schedules().Resume(ctx, name, "resumed by a person")
		if err == nil {
			t.app.aside("schedule %s goes on", line(name, client.MaxScheduleName))
		}
		return err
	})
}

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

// underWay returns a note if a run of the schedule is active.
func underWay(s client.Schedule) string {
	if !s.Active {
		return ""
	}
	return ", and what is under way goes on"
}

// scheduleAct returns a command that calls do with the name of a schedule.
func (a *app) scheduleAct(verb, short string, do func(context.Context, *turnClient, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " <name>",
		Short:             short,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkScheduleName(args[0]); err != nil {
				return err
			}
			return a.withTemporal(cmd.Context(), openJournal, func(t *turnClient) error {
				return scheduleError(args[0], do(cmd.Context(), t, args[0]))
			})
		},
	}
}
