package talk

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows"
)

// Compact returns the command that compacts a session.
func Compact(a *app.App) *cobra.Command {
	var focus, output string
	cmd := &cobra.Command{
		Use:   "compact [session]",
		Short: "Summarize a session for its next prompts",
		Long: `Let a model summarize a session whose turn has ended. Later prompts contain a summary, your messages
verbatim and references to tool outputs in place of the old messages. The messages stay as they are:
everturn show lists them, and everturn rewind to the last of them undoes the summary.

Workers do the same by themselves before a conversation exceeds the model's context window: see
[prompt] in docs/configuration.md.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			latest := func(t *app.TurnClient, ctx context.Context) (string, error) { return t.Latest(ctx) }
			return a.OnSession(cmd.Context(), args, app.Needs{}, latest, func(t *app.TurnClient, session string) error {
				return compact(cmd.Context(), a, t, client.CompactInput{Session: session, Focus: focus}, output)
			})
		},
	}
	cmd.Flags().StringVar(&focus, "focus", "", "what the summary keeps above all, as `text`")
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// compact compacts a session, waits until that is done, and prints the result.
func compact(ctx context.Context, a *app.App, t *app.TurnClient, in client.CompactInput, output string) error {
	if err := t.ConnectToTemporal(ctx); err != nil {
		return err
	}
	var res workflows.CompactResult
	err := t.AwaitWorker(ctx, func() (err error) { res, err = t.Client.Compact(ctx, in); return err })
	if errors.Is(err, client.ErrBusy) {
		return fmt.Errorf("%w: wait for its end, or stop it with `everturn stop %s`", err, app.Quoted(in.Session))
	}
	if err != nil {
		return err
	}
	if output == app.OutputJSON {
		return app.WriteJSON(a.Out, res)
	}
	if res.Nothing {
		a.Note("there is nothing to compact yet")
		return nil
	}
	fmt.Fprintln(a.Out, app.Line(res.String(), 400))
	return nil
}
