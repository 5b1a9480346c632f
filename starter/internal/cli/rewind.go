package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) rewindCommand() *cobra.Command {
	var to int64
	var as, output string
	cmd := &cobra.Command{
		Use:   "rewind [session] --to N",
		Short: "Continue from an earlier message in a new session",
		Long: `Create a session that continues after message N (starter show numbers them) without the later
messages. The old session does not change; starter diff compares the two.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to < 1 {
				return usage("--to is the number of the last message to keep, at least 1: `starter show` numbers the messages")
			}
			return a.branch(cmd.Context(), args, to, as, output)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&to, "to", 0, "the `number` of the last message to keep")
	flags.StringVar(&as, "as", "", "the `ID` of the new session")
	outputFlag(cmd, &output, outputText, outputJSON)
	return cmd
}
