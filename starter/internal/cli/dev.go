package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
)

func (a *app) devCommand() *cobra.Command {
	var noWorker, slow bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run Temporal, its Web UI and a worker on this machine until Ctrl-C",
		Long: `Run Temporal, its Web UI and a worker on this machine until Ctrl-C.

All commands of this folder with --dev share the server, and the last one to exit stops it. The
server keeps its data in the folder .everturn.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slow && noWorker {
				return usage("--slow configures the worker, and --no-worker starts none: use `go run ./worker -slow` instead")
			}
			if slow {
				a.override("llm.demo_slow", "true")
			}
			loaded, err := a.load()
			if err != nil {
				return err
			}
			return a.dev(cmd.Context(), loaded.Config, !noWorker)
		},
	}
	cmd.Flags().BoolVar(&noWorker, "no-worker", false, "do not start a worker")
	cmd.Flags().BoolVar(&slow, "slow", false, "let the demo model answer slowly")
	return cmd
}

// dev keeps the stack up until a signal arrives or its worker ends.
func (a *app) dev(ctx context.Context, cfg config.Config, worker bool) error {
	stack, cfg, err := a.startStack(ctx, cfg, needs{server: true, worker: worker})
	if err != nil {
		return err
	}
	defer stack.close()
	signals := a.interrupts.take()
	a.note("Temporal  %s (namespace %s)\nWeb UI    %s", cfg.Temporal.Address, cfg.Temporal.Namespace, cfg.Temporal.UIURL)
	if worker {
		a.note("the worker polls task queue %s; send a message with `starter run \"...\"`", cfg.Temporal.TaskQueue)
	} else {
		a.note("no worker is running; start one with `go run ./worker`")
	}
	a.note("press Ctrl-C to exit")
	select {
	case <-signals:
		return nil
	case <-ctx.Done(): // the signal arrived before take
		return context.Cause(ctx)
	case err := <-stack.failed():
		return err
	}
}
