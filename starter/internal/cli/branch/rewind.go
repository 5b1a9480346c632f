package branch

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Rewind returns the command that continues from an earlier message in a new session.
func Rewind(a *app.App) *cobra.Command {
	var to int64
	var as, output string
	cmd := &cobra.Command{
		Use:   "rewind [session] --to N",
		Short: "Continue from an earlier message in a new session",
		Long: `Create a session that continues after message N (everturn show numbers them) without the later
messages. The old session does not change; everturn diff compares the two.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to < 1 {
				return app.Usage("--to is the number of the last message to keep, at least 1: `everturn show` numbers the messages")
			}
			return branch(cmd.Context(), a, args, to, as, output)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&to, "to", 0, "the `number` of the last message to keep")
	flags.StringVar(&as, "as", "", "the `ID` of the new session")
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}
