package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) rewindCommand() *cobra.Command {
	var to int64
	var as string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rewind [session] --to N",
		Short: "Go on from an earlier message, in a new session; the old one stays as it is",
		Long: `Go on from message N, as show numbers them: what came later is left out of the new session that begins there. The old
one stays as it is, and diff shows both.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to < 1 {
				return usage("--to names the last message to keep, from 1 on: `starter show` numbers them")
			}
			return a.branch(cmd.Context(), args, to, as, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&to, "to", 0, "the `number` of the last message to keep")
	flags.StringVar(&as, "as", "", "the new session's `ID`")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
