package schedule

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Command returns the command schedule with its subcommands.
func Command(a *app.App) *cobra.Command {
	return app.Parent("schedule", "Send a message repeatedly, on a schedule that Temporal keeps", scheduleCreate(a),
		scheduleList(a),
		scheduleDelete(a), schedulePause(a), scheduleResume(a), scheduleTrigger(a))
}

// checkScheduleName returns an error if the name of a schedule is invalid.
func checkScheduleName(name string) error {
	if err := client.CheckScheduleName(name); err != nil {
		// A name is checked as the beginning of a session ID, so the error may speak of that.
		return app.Usage("the schedule name: %s", strings.Replace(err.Error(), "the session ID", "it", 1))
	}
	return nil
}

// clockTime formats a time of a schedule in the local time zone.
func clockTime(at time.Time) string { return at.Local().Format("Mon 2006-01-02 15:04:05 -07") }

// scheduleError returns the error of a request about a schedule, with what the user can do. It returns nil if err is
// nil, and other errors unchanged.
func scheduleError(name string, err error) error {
	switch {
	case errors.Is(err, client.ErrExists):
		return app.Usage("schedule %q already exists: delete it with `everturn schedule delete %s`, or choose another name",
			name,
			app.Quoted(name))
	case errors.Is(err, client.ErrNotFound):
		return app.Usage("there is no schedule %q; `everturn schedule list` lists them", name)
	case errors.Is(err, client.ErrForeign):
		return app.Usage("schedule %q was not created by Everturn: use the temporal command line for it", name)
	case errors.Is(err, client.ErrInvalid):
		return app.AsUsage(err)
	}
	return err
}

// scheduleAction returns a command named verb that calls do with a client and the name of a schedule.
func scheduleAction(a *app.App, verb, short string,
	do func(context.Context, *app.TurnClient, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " <name>",
		Short:             short,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkScheduleName(args[0]); err != nil {
				return err
			}
			return a.WithClient(cmd.Context(), app.Needs{}, func(t *app.TurnClient) error {
				return scheduleError(args[0], do(cmd.Context(), t, args[0]))
			})
		},
	}
}
