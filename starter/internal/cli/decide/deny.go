package decide

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Deny returns the command that denies tool calls.
func Deny(a *app.App) *cobra.Command {
	f := decideFlags{deny: true}
	cmd := &cobra.Command{
		Use:   "deny <session> [call...]",
		Short: "Deny tool calls that wait for approval",
		Long: `Deny tool calls of a session that wait for approval; without a call, the only one. The model gets
the reason. To deny every call of a tool, put the tool into policy.deny of agent.toml.`,
		Example: `  everturn deny s-k2j3 2.0 --reason "not on a Friday"
  everturn deny s-k2j3 --all`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeRequests(a, app.MaxCompletions, turn.RequestApproval),
		RunE:              func(cmd *cobra.Command, args []string) error { return decideCalls(cmd.Context(), a, args, f) },
	}
	f.register(cmd)
	return cmd
}
