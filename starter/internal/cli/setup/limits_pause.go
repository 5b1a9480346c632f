package setup

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// maxPause bounds a pause, so that a forgotten pause does not stop turns forever.
const maxPause = 30 * 24 * time.Hour

// limitsPause returns the command that pauses a scope.
func limitsPause(a *app.App) *cobra.Command {
	var pause time.Duration
	var reason string
	cmd := &cobra.Command{
		Use:   "pause" + scopeUsage,
		Short: "Pause a provider, a model or a tenant for some time",
		Long: `Pause a provider, a model or a tenant for some time: no worker sends it another request. Requests in
flight continue, and turns wait. The pause has your name, ends by itself, and replaces an earlier
one.`,
		Example: `  everturn limits pause openai --for 30m --reason "outage, see status.openai.com"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if pause < time.Second || pause > maxPause {
				return app.Usage("--for is %s; it must be from 1s to %s", pause, maxPause)
			}
			return onScope(cmd.Context(), a, args[0], func(j client.Journal) error {
				p, err := j.PauseScope(cmd.Context(), args[0], app.UserName(), app.Line(reason, 200), pause)
				if err == nil {
					a.Note("%s is paused until %s", client.DescribeScope(args[0]), p.Until.Local().Format(time.DateTime))
				}
				return err
			})
		},
	}
	cmd.Flags().DurationVar(&pause, "for", time.Hour, "how long: a `duration` such as 30m")
	cmd.Flags().StringVar(&reason, "reason", "", "the `reason`, which waiting turns show")
	return cmd
}

// limitsResume returns the command that ends a pause.
func limitsResume(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "resume" + scopeUsage,
		Short: "End a pause, or the wait that a provider has asked for",
		Long: `End a pause of a provider, a model or a tenant, or the wait that a provider has asked for with HTTP
429. Turns that wait for a pause continue within 20 seconds. After a 429, workers ask the provider
again within a minute, and the turn whose request was refused waits as long as the provider asked.`,
		Example: `  everturn limits resume openai`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onScope(cmd.Context(), a, args[0], func(j client.Journal) error {
				waited, err := j.ResumeScope(cmd.Context(), args[0])
				switch {
				case err != nil:
					return err
				case !waited:
					a.Note("%s was not paused", client.DescribeScope(args[0]))
				default:
					a.Note("%s is resumed", client.DescribeScope(args[0]))
				}
				return nil
			})
		},
	}
}
