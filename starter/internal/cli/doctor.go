package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

// checkTimeout bounds each of the doctor's checks.
const checkTimeout = 20 * time.Second

// warning is the error of a check that found something to report but no failure.
type warning struct{ text string }

func (w *warning) Error() string { return w.text }

// check is one check of the doctor. run returns a description of what it found.
type check struct {
	name string
	run  func(ctx context.Context, cfg config.Config) (string, error)
}

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, journal, model, MCP servers, Temporal and workers",
		Long: `Check the configuration, journal, model, MCP servers, Temporal and workers, with one line for each.

The exit code is that of the first check that fails, or 0. A warning ("warn") is not a failure:
turns would wait for it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			fmt.Fprintln(a.out, "ok    configuration")
			return a.runChecks(cmd.Context(), loaded.Config, []check{
				{"journal", checkJournal},
				{"model", checkModel},
				{"tools", a.checkTools},
				{"Temporal", a.checkTemporal},
				{"worker", a.checkWorker},
			})
		},
	}
}

// runChecks runs every check and returns the exit code of the first that failed.
func (a *app) runChecks(ctx context.Context, cfg config.Config, checks []check) error {
	var first error
	for _, c := range checks {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		found, err := c.run(ctx, cfg)
		cancel()
		var warn *warning
		switch {
		case err == nil:
			fmt.Fprintf(a.out, "ok    %s: %s\n", c.name, line(found, 200))
			continue
		case errors.As(err, &warn):
			fmt.Fprintf(a.out, "warn  %s: %s\n", c.name, a.withTypedCommands(printable(warn.text)))
			continue
		}
		fmt.Fprintf(a.out, "FAIL  %s: %s\n", c.name, a.withTypedCommands(printable(err.Error())))
		if first == nil {
			first = &exitError{code: exitCode(err)}
		}
	}
	return first
}

func checkJournal(ctx context.Context, cfg config.Config) (string, error) {
	if !engine.HasJournal(cfg) {
		return cfg.Journal.Path + ", does not exist yet", nil
	}
	store, err := openJournal(ctx, cfg)
	if err != nil {
		return "", err
	}
	sessions, err := store.Sessions(ctx, 1)
	if err := errors.Join(err, store.Close()); err != nil {
		return "", err
	}
	if len(sessions) == 0 {
		return cfg.Journal.Place() + ", empty", nil
	}
	return fmt.Sprintf("%s, last used %s", cfg.Journal.Place(), sessions[0].UpdatedAt.Local().Format(time.DateTime)), nil
}

func checkModel(ctx context.Context, cfg config.Config) (string, error) {
	found, err := engine.CheckModel(ctx, cfg)
	var rejected *turn.Error
	if errors.As(err, &rejected) && (rejected.Code == turn.CodeLLMRejected || rejected.Code == turn.CodeLLMUnauthorized) {
		return "", &exitError{code: exitCredentials, cause: err}
	}
	return found, err
}

// checkTools connects to the servers and adds the problems that running workers report, because a worker may run
// elsewhere.
func (a *app) checkTools(ctx context.Context, cfg config.Config) (string, error) {
	if err := a.checkEnviron(); err != nil {
		return "", err
	}
	catalogues, _, err := engine.AskServers(ctx, cfg, engine.WithEnviron(a.environ))
	if err != nil {
		return "", err
	}
	tools := 0
	var problems []error
	for _, c := range catalogues {
		tools += len(c.Tools)
		if c.Problem != "" {
			problems = append(problems, fmt.Errorf("server %s: %s", c.Server, c.Problem))
		}
	}
	found := fmt.Sprintf("%s of %s", ui.Count(tools, "tool"), ui.Count(len(catalogues), "server"))
	published, workers, err := reported(ctx, cfg)
	if err != nil {
		return "", err
	}
	quarantined := 0
	for _, c := range published {
		quarantined += len(c.Quarantined)
	}
	if quarantined > 0 {
		found += fmt.Sprintf(", %d quarantined (see `starter tools diff`)", quarantined)
	}
	return found, errors.Join(append(problems, workersProblems(workers)...)...)
}

// workersProblems returns an error for each server that a running worker cannot use.
func workersProblems(workers []engine.WorkerHealth) (problems []error) {
	for _, w := range workers {
		for _, s := range w.Servers {
			if s.State == engine.ServerFailing {
				problems = append(problems, fmt.Errorf("server %s has failed for worker %s since %s: %s", s.Server, w.Worker,
					s.Since.Local().Format(time.TimeOnly), s.LastError))
			}
		}
	}
	return problems
}

// checkTemporal also checks the owner of a development server: a worker of this folder refuses another folder's server.
func (a *app) checkTemporal(ctx context.Context, cfg config.Config) (found string, err error) {
	err = a.onCluster(ctx, cfg, func(c temporalconn.Conn, address, namespace string) error {
		version, err := temporalconn.ServerVersion(ctx, c)
		if err != nil {
			return err
		}
		found = "server " + version
		return temporalconn.CheckOwner(ctx, c, address, namespace, cfg.Journal.Path)
	})
	return found, err
}

// journalID returns the ID of the journal, or "" if there is no journal yet.
func journalID(ctx context.Context, cfg config.Config) (string, error) {
	if !engine.HasJournal(cfg) {
		return "", nil
	}
	store, err := engine.OpenJournal(ctx, cfg)
	if err != nil {
		return "", journalError(ctx, err)
	}
	defer store.Close()
	return store.ID(ctx)
}

// checkWorker checks whether a worker polls the task queue. It only warns, because no worker is needed until a turn
// starts.
func (a *app) checkWorker(ctx context.Context, cfg config.Config) (found string, err error) {
	var workers []temporalconn.Poller
	queue := cfg.Temporal.TaskQueue
	err = a.onCluster(ctx, cfg, func(c temporalconn.Conn, _, namespace string) (err error) {
		workers, err = temporalconn.Pollers(ctx, c, namespace, queue)
		return err
	})
	switch {
	case err != nil:
		return "", &warning{"cannot check for workers: Temporal is unreachable"}
	case len(workers) == 0:
		return "", &warning{fmt.Sprintf("none polls task queue %s, so turns would wait: start one with `starter dev` or "+
			"`go run ./worker`", queue)}
	}
	id, err := journalID(ctx, cfg)
	if err != nil {
		return "", err
	}
	if others := temporalconn.WithOtherJournal(workers, id); len(others) > 0 {
		return "", usage("%s polls task queue %s (now or in the last minute) but uses another journal than %s, so this "+
			"command cannot show its turns: stop it, or give it another [temporal] task_queue",
			line(others[0].Identity, 80), queue, cfg.Journal.Place())
	}
	return fmt.Sprintf("%d polling task queue %s", len(workers), queue), nil
}

// onCluster calls do with a connection to the configured cluster.
func (a *app) onCluster(ctx context.Context, cfg config.Config, do func(c temporalconn.Conn, address,
	namespace string) error) error {
	address, namespace, err := temporalconn.FromConfig(cfg.Temporal, a.environ).Resolved()
	if err != nil {
		return err
	}
	c, err := a.dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c, address, namespace)
}
