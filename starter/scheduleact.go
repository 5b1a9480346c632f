package main

import (
	"context"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
)

func (a *app) scheduleDeleteCommand() *cobra.Command {
	return a.scheduleAct("delete", "Delete a schedule; what it has begun goes on", func(ctx context.Context, t *turnClient, name string, d *client.ScheduleDescription) error {
		if err := t.scheduleHandle(ctx, name).Delete(ctx); err != nil {
			return scheduleError(name, err)
		}
		t.app.aside("schedule %s is deleted; its sessions stay%s", line(name, maxScheduleName), underWay(d))
		return nil
	})
}

func (a *app) schedulePauseCommand() *cobra.Command {
	return a.scheduleAct("pause", "Let a schedule rest", func(ctx context.Context, t *turnClient, name string, d *client.ScheduleDescription) error {
		if err := t.scheduleHandle(ctx, name).Pause(ctx, client.SchedulePauseOptions{Note: "paused by a person"}); err != nil {
			return scheduleError(name, err)
		}
		t.app.aside("schedule %s is paused%s", line(name, maxScheduleName), underWay(d))
		return nil
	})
}

func (a *app) scheduleResumeCommand() *cobra.Command {
	return a.scheduleAct("resume", "Let a paused schedule go on", func(ctx context.Context, t *turnClient, name string, d *client.ScheduleDescription) error {
		if err := t.scheduleHandle(ctx, name).Unpause(ctx, client.ScheduleUnpauseOptions{Note: "resumed by a person"}); err != nil {
			return scheduleError(name, err)
		}
		t.app.aside("schedule %s goes on", line(name, maxScheduleName))
		return nil
	})
}

func (a *app) scheduleTriggerCommand() *cobra.Command {
	return a.scheduleAct("trigger", "Let a schedule come due now, as well", func(ctx context.Context, t *turnClient, name string, d *client.ScheduleDescription) error {
		if err := t.scheduleHandle(ctx, name).Trigger(ctx, client.ScheduleTriggerOptions{}); err != nil {
			return scheduleError(name, err)
		}
		if len(d.Info.RunningWorkflows) > 0 {
			t.app.note("the last time of schedule %s is not over, so this one is left out unless it ends this moment", line(name, maxScheduleName))
			return nil
		}
		t.app.aside("schedule %s comes due; `starter schedule list` shows what comes of it", line(name, maxScheduleName))
		return nil
	})
}

// underWay says that something of a schedule is not over.
func underWay(d *client.ScheduleDescription) string {
	if len(d.Info.RunningWorkflows) == 0 {
		return ""
	}
	return ", and what is under way goes on"
}

// scheduleAct is a command that does one thing to one schedule of ours.
func (a *app) scheduleAct(verb, short string, do func(context.Context, *turnClient, string, *client.ScheduleDescription) error) *cobra.Command {
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
				d, _, err := t.described(cmd.Context(), args[0])
				if err != nil {
					return scheduleError(args[0], err)
				}
				return do(cmd.Context(), t, args[0], d)
			})
		},
	}
}
