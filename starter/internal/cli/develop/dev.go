package develop

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/devserver"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Dev returns the command that runs Temporal, its Web UI and a worker.
func Dev(a *app.App) *cobra.Command {
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
				return app.Usage("--slow configures the worker, and --no-worker starts none: use `everturn worker --slow` instead")
			}
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			return runStack(cmd.Context(), a, loaded.Config, app.Needs{Server: true, Worker: !noWorker, SlowDemo: slow})
		},
	}
	cmd.Flags().BoolVar(&noWorker, "no-worker", false, "do not start a worker")
	cmd.Flags().BoolVar(&slow, "slow", false, "let the demo model answer slowly")
	return cmd
}

// runStack starts the development server and, if n says so, a worker in this process. It runs until a signal
// arrives or the worker ends. Meanwhile it notes when the server stops or starts to answer.
func runStack(ctx context.Context, a *app.App, cfg config.Config, n app.Needs) error {
	stack, cfg, err := a.StartStack(ctx, cfg, n)
	if err != nil {
		return err
	}
	defer stack.Close()
	signals := a.Interrupts.Take()
	a.Note("Temporal  %s (namespace %s)\nWeb UI    %s", cfg.Temporal.Address, cfg.Temporal.Namespace, cfg.Temporal.UIURL)
	stop, err := serveDev(ctx, a, cfg)
	if err != nil {
		return err
	}
	defer stop()
	if n.Worker {
		a.Note("the worker polls task queue %s; send a message with `everturn run \"...\"`", cfg.Temporal.TaskQueue)
	} else {
		a.Note("no worker is running; start one with `everturn worker`")
	}
	a.Note("press Ctrl-C to exit")
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for answers := true; ; {
		select {
		case <-signals:
			return nil
		case <-ctx.Done(): // the signal arrived before Take
			return context.Cause(ctx)
		case err := <-stack.Failed():
			return err
		case <-ticker.C:
			if now := serverListens(ctx, cfg.Temporal.Address); now != answers {
				answers = now
				noteServer(a, cfg.Temporal.Address, answers)
			}
		}
	}
}

// lookEvery is how often dev checks that the server still runs, and the timeout of the check.
const lookEvery = 2 * time.Second

// serverListens reports whether a server accepts TCP connections at the address.
func serverListens(ctx context.Context, address string) bool {
	dialer := net.Dialer{Timeout: lookEvery}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// noteServer prints that the Temporal server answers again or, if answers is false, that it no longer does. Nothing is
// lost meanwhile, and the worker reconnects by itself.
func noteServer(a *app.App, address string, answers bool) {
	if answers {
		a.Note("Temporal answers on %s again; the turns continue", address)
		return
	}
	a.Note("Temporal no longer answers on %s, so turns wait: press Ctrl-C and run `everturn dev` again, which continues "+
		"them "+
		"(its log is %s)", address, filepath.Join(app.StateDir, "temporal.log"))
}

// DevServer returns the command that supervises the development server. Only dev and --dev start it.
func DevServer(a *app.App) *cobra.Command { return devserver.Command(a.Err) }
