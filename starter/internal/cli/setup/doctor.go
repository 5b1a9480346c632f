package setup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows"
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
	run  func(ctx context.Context, a *app.App, cfg config.Config) (string, error)
}

func Doctor(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, journal, model, limits, MCP servers, Temporal and workers",
		Long: `Check the configuration, journal, model, limits, MCP servers, Temporal and workers, with one line for
each. The last line compares the latest turns in Temporal with the journal, which lacks some of them if
it was restored to an earlier moment.

The exit code is that of the first check that fails, or 0. A warning ("warn") is not a failure:
turns would wait for it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, "ok    configuration")
			return runChecks(cmd.Context(), a, loaded.Config, []check{
				{"journal", checkJournal},
				{"model", checkModel},
				{"limits", checkLimits},
				{"tools", checkTools},
				{"Temporal", checkTemporal},
				{"worker", checkWorker},
				{"history", checkHistory},
			})
		},
	}
}

// runChecks runs every check and returns the exit code of the first that failed.
func runChecks(ctx context.Context, a *app.App, cfg config.Config, checks []check) error {
	var first error
	for _, c := range checks {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		found, err := c.run(ctx, a, cfg)
		cancel()
		var warn *warning
		switch {
		case err == nil:
			fmt.Fprintf(a.Out, "ok    %s: %s\n", c.name, app.Line(found, 200))
			continue
		case errors.As(err, &warn):
			fmt.Fprintf(a.Out, "warn  %s: %s\n", c.name, a.WithTypedCommands(app.Printable(warn.text)))
			continue
		}
		fmt.Fprintf(a.Out, "FAIL  %s: %s\n", c.name, a.WithTypedCommands(app.Printable(err.Error())))
		if first == nil {
			first = &app.ExitError{Code: app.ExitCode(err)}
		}
	}
	return first
}

func checkJournal(ctx context.Context, _ *app.App, cfg config.Config) (string, error) {
	if !engine.HasJournal(cfg) {
		return cfg.Journal.Path + ", does not exist yet", nil
	}
	store, err := app.OpenJournal(ctx, cfg)
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

func checkModel(ctx context.Context, _ *app.App, cfg config.Config) (string, error) {
	found, err := engine.CheckModel(ctx, cfg)
	var rejected *turn.Error
	if errors.As(err, &rejected) && (rejected.Code == turn.CodeLLMRejected || rejected.Code == turn.CodeLLMUnauthorized) {
		return "", &app.ExitError{Code: app.ExitCredentials, Cause: err}
	}
	return found, err
}

// checkTools connects to the servers and adds the problems that running workers report, because a worker may run
// elsewhere.
func checkTools(ctx context.Context, a *app.App, cfg config.Config) (string, error) {
	if err := a.CheckEnviron(); err != nil {
		return "", err
	}
	catalogues, _, err := engine.AskServers(ctx, cfg, engine.WithEnviron(a.Environ))
	if err != nil {
		return "", err
	}
	tools := 0
	var problems []error
	for _, c := range catalogues {
		tools += len(c.Tools)
		if c.Problem != "" {
			problems = append(problems, errors.New(c.Problem))
		}
	}
	found := fmt.Sprintf("%s of %s", ui.Count(tools, "tool"), ui.Count(len(catalogues), "server"))
	published, workers, err := reported(ctx, cfg)
	if err != nil {
		return "", err
	}
	quarantined := 0
	for _, c := range byServer(published) {
		quarantined += len(c.Quarantined)
	}
	if quarantined > 0 {
		found += fmt.Sprintf(", %d quarantined (see `starter tools diff`)", quarantined)
	}
	if err := errors.Join(append(problems, workersProblems(workers)...)...); err != nil {
		return found, err
	}
	queue := cfg.Temporal.TaskQueue
	if text := differences(published, onQueue(workers, queue)); text != "" {
		return "", &warning{fmt.Sprintf("the workers of task queue %s offer different tools: %s. A turn has the tools of the "+
			"worker that begins it: give all of them the same agent.toml and program", queue, text)}
	}
	return found, nil
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
func checkTemporal(ctx context.Context, a *app.App, cfg config.Config) (found string, err error) {
	err = onCluster(ctx, a, cfg, func(c temporalconn.Conn, address, namespace string) error {
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
		return "", app.JournalError(ctx, err)
	}
	defer store.Close()
	return store.ID(ctx)
}

// checkWorker checks whether a worker polls the task queue. It only warns, because no worker is needed until a turn
// starts.
func checkWorker(ctx context.Context, a *app.App, cfg config.Config) (found string, err error) {
	var workers []temporalconn.Poller
	var missing string
	queue := cfg.Temporal.TaskQueue
	err = onCluster(ctx, a, cfg, func(c temporalconn.Conn, _, namespace string) (err error) {
		if workers, err = temporalconn.Pollers(ctx, c, queue); err != nil {
			return err
		}
		missing, err = unpolled(ctx, c, namespace, cfg)
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
		return "", app.Usage("%s polls task queue %s (now or in the last minute) but uses another journal than %s, so this "+
			"command cannot show its turns: stop it, or give it another [temporal] task_queue",
			app.Line(others[0].Identity, 80), queue, cfg.Journal.Place())
	}
	if others := temporalconn.WithOtherSettings(workers, cfg.Settings()); len(others) > 0 {
		return "", &warning{app.OtherSettings(others, queue)}
	}
	if missing != "" {
		return "", &warning{missing}
	}
	return fmt.Sprintf("%d polling task queue %s", len(workers), queue), nil
}

// unpolled describes the first role or server that no running worker has, "" if there is none. A worker with all roles
// polls the task queues of all of them.
func unpolled(ctx context.Context, c temporalconn.Conn, namespace string, cfg config.Config) (string, error) {
	type need struct{ queue, start string }
	needed := []need{{cfg.Queue(config.RoleTools), `with the role "tools" in worker.roles`}}
	if cfg.LLM.Known() {
		needed = append(needed, need{cfg.Queue(config.RoleInference),
			`with the role "inference" in worker.roles and the same [llm] as here`})
	}
	for _, s := range cfg.MCP.Servers {
		if s.Queue != "" {
			needed = append(needed, need{cfg.ServerQueue(s.Queue),
				fmt.Sprintf("with %q in worker.server_queues, for server %s", s.Queue, s.ID)})
		}
	}
	for _, n := range needed {
		found, err := temporalconn.ActivityPollers(ctx, c, n.queue)
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return fmt.Sprintf("none polls task queue %s: start one %s", n.queue, n.start), nil
		}
	}
	return "", nil
}

const (
	// comparedTurns is how many of the latest turns in Temporal checkHistory looks for in the journal.
	comparedTurns = 20
	// clockSkew is how much the clocks of Temporal and the workers may differ.
	clockSkew = time.Minute
)

// checkHistory warns of turns that ended in Temporal after the journal's last entry of their sessions: the journal was
// restored to an earlier moment than Temporal.
func checkHistory(ctx context.Context, a *app.App, cfg config.Config) (found string, err error) {
	if !engine.HasJournal(cfg) {
		return "no turn yet", nil
	}
	store, err := app.OpenJournal(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer store.Close()
	err = onCluster(ctx, a, cfg, func(c temporalconn.Conn, _, namespace string) error {
		listed, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: namespace, PageSize: comparedTurns,
			Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Completed' AND TaskQueue = %s",
				workflows.TurnWorkflow, strconv.Quote(cfg.Temporal.TaskQueue)),
		})
		if err != nil {
			return err
		}
		compared := 0
		for _, e := range listed.GetExecutions() {
			session, ours := workflows.SessionOf(cfg.Tenant, e.GetExecution().GetWorkflowId())
			if !ours {
				continue
			}
			begun := e.GetStartTime().AsTime()
			s, err := store.Session(ctx, session)
			switch {
			case err != nil && !errors.Is(err, journal.ErrNotFound):
				return err
			case err != nil || s.UpdatedAt.Add(clockSkew).Before(begun):
				return &warning{fmt.Sprintf("the journal lacks the turn of session %s that began at %s and has ended in Temporal: "+
					"it was restored to an earlier moment, or is another one. Restore a later copy, or go on without what it lacks",
					app.Line(session, 80), begun.Local().Format(time.DateTime))}
			}
			compared++
		}
		found = fmt.Sprintf("the journal has the last %s of Temporal", ui.Count(compared, "turn"))
		return nil
	})
	return found, err
}

// onCluster calls do with a connection to the configured cluster.
func onCluster(ctx context.Context, a *app.App, cfg config.Config, do func(c temporalconn.Conn, address,
	namespace string) error) error {
	address, namespace, err := temporalconn.FromConfig(cfg.Temporal, a.Environ).Resolved()
	if err != nil {
		return err
	}
	c, err := a.Dial(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c, address, namespace)
}
