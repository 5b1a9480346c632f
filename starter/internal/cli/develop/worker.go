package develop

import (
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/workerprocess"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Worker returns the command that runs a worker, as the program worker does.
func Worker(a *app.App) *cobra.Command {
	o := workerprocess.Options{}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker until Ctrl-C",
		Long: `Run a worker until Ctrl-C.

The worker uses the Temporal server and the journal of the configuration. Starting it trusts the
folder's agent.toml. The first signal drains the worker, a second one ends it at once.`,
		Example: `  everturn worker
  everturn worker --set worker.health_address=127.0.0.1:8233`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.ConfigPath, o.Overrides, o.Environ, o.Log = a.ConfigPath, a.Overrides, a.Environ, a.Err
			return workerprocess.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Slow, "slow", false, "let the demo model answer slowly")
	cmd.Flags().BoolVar(&o.Healthcheck, "healthcheck", false,
		"ask the worker at worker.health_address whether it is ready, and exit")
	return cmd
}
