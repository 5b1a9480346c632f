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
		Short: "Keep Temporal, its Web UI and a worker up on this machine until Ctrl-C",
		Long: `Keep Temporal, its Web UI and a worker up on this machine until Ctrl-C.

The server is shared with every command of this folder that has --dev; the last one out stops it. What it keeps is in
the folder .everturn.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slow && noWorker {
				return usage("--slow is for the worker that --no-worker leaves out: give it to `go run ./worker -slow` instead")
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
	cmd.Flags().BoolVar(&noWorker, "no-worker", false, "run no worker: workers run elsewhere")
	cmd.Flags().BoolVar(&slow, "slow", false, "let the demo model answer slowly, to be watched")
	return cmd
}

// dev keeps the stack up until a signal arrives or its worker ends.
func (a *app) dev(ctx context.Context, cfg config.Config, worker bool) error {
	stack, cfg, err := a.bringUp(ctx, cfg, needs{server: true, worker: worker})
	if err != nil {
		return err
	}
	defer stack.close()
	signals := a.interrupts.take()
	a.note("Temporal  %s (namespace %s)\nWeb UI    %s", cfg.Temporal.Address, cfg.Temporal.Namespace, cfg.Temporal.UIURL)
	if worker {
		a.note("a worker polls task queue %s; ask something with `starter run \"...\"`", cfg.Temporal.TaskQueue)
	} else {
		a.note("no worker runs here; start one with `go run ./worker`")
	}
	a.note("Ctrl-C ends")
	select {
	case <-signals:
		return nil
	case <-ctx.Done(): // the signal arrived before take
		return context.Cause(ctx)
	case err := <-stack.failed():
		return err
	}
}
