package setup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"
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

// The doctor ends within ten seconds. Its checks have checkWithin to find out what is wrong, and those that still run
// after giveUpAfter are not waited for: until then a tool server that hangs is stopped.
const (
	checkWithin = 7 * time.Second
	giveUpAfter = 9 * time.Second
)

// warning is the error of a check that found something to report but no failure.
type warning struct{ text string }

func (w *warning) Error() string { return w.text }

// unchecked is the warning of a check that needs something whose own check has failed.
func unchecked(see string) error { return &warning{"not checked: see " + see} }

// check is one check of the doctor. run returns a description of what it found.
type check struct {
	name string
	run  func(ctx context.Context, x *examination) (string, error)
}

var checks = []check{
	{"journal", checkJournal},
	{"model", checkModel},
	{"limits", checkLimits},
	{"tools", checkTools},
	{"Temporal", checkTemporal},
	{"worker", checkWorker},
	{"history", checkHistory},
}

// finding is what a check found, as -o json prints it.
type finding struct {
	Check string `json:"check"`
	State string `json:"state"` // ok, warn or fail
	Text  string `json:"text,omitempty"`
	Exit  int    `json:"exit,omitempty"` // the exit code of a failure
}

func Doctor(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, journal, model, limits, MCP servers, Temporal and workers",
		Long: `Check the configuration, journal, model, limits, MCP servers, Temporal and workers, with one line for
each, within ten seconds. The journal is written to. The last line compares the latest turns in
Temporal with the journal, which lacks some of them if it was restored to an earlier moment.

The exit code is that of the first check that fails, or 0. A warning ("warn") is not a failure:
turns would wait for it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			show := func(f finding) { fmt.Fprintln(a.Out, f.line(a)) }
			if output != app.OutputText {
				show = func(finding) {}
			}
			found := examine(cmd.Context(), a, loaded.Config, show)
			if output != app.OutputText {
				if err := app.PrintList(a.Out, output, found, nil); err != nil {
					return err
				}
			}
			for _, f := range found {
				if f.Exit != 0 {
					return &app.ExitError{Code: f.Exit}
				}
			}
			return nil
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// examine runs all checks at the same time, and shows and returns what they find in their order.
func examine(ctx context.Context, a *app.App, cfg config.Config, show func(finding)) []finding {
	checking, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	x := newExamination(checking, a, cfg)
	results := make([]chan finding, len(checks))
	for i, c := range checks {
		results[i] = make(chan finding, 1)
		go func() {
			text, err := c.run(checking, x)
			results[i] <- found(c.name, text, err)
		}()
	}
	all := []finding{{Check: "configuration", State: "ok"}}
	show(all[0])
	patience, cancel := context.WithTimeout(ctx, giveUpAfter)
	defer cancel()
	complete := true
	for i, c := range checks {
		f, ok := await(patience, results[i])
		if !ok {
			f, complete = found(c.name, "", fmt.Errorf("no result within %v", giveUpAfter)), false
		}
		show(f)
		all = append(all, f)
	}
	if complete { // otherwise closing waits for a check that hangs
		x.close()
	}
	return all
}

// await returns a result, which may be there when ctx ends.
func await(ctx context.Context, result <-chan finding) (f finding, ok bool) {
	select {
	case f = <-result:
		return f, true
	case <-ctx.Done():
	}
	select {
	case f = <-result:
		return f, true
	default:
		return f, false
	}
}

func found(check, text string, err error) finding {
	var warn *warning
	switch {
	case err == nil:
		return finding{Check: check, State: "ok", Text: text}
	case errors.As(err, &warn):
		return finding{Check: check, State: "warn", Text: warn.text}
	}
	return finding{Check: check, State: "fail", Text: err.Error(), Exit: app.ExitCode(err)}
}

// line returns the finding as the text output prints it.
func (f finding) line(a *app.App) string {
	mark := map[string]string{"ok": "ok    ", "warn": "warn  ", "fail": "FAIL  "}[f.State] + f.Check
	switch {
	case f.Text == "":
		return mark
	case f.State == "ok":
		return mark + ": " + app.Line(f.Text, 200)
	}
	return mark + ": " + a.WithTypedCommands(app.Printable(f.Text))
}

// examination is one run of the doctor. Its checks share the journal and the connection to Temporal.
type examination struct {
	app *app.App
	cfg config.Config
	// journal opens the journal, once; nil without an error if there is none yet.
	journal func() (*journal.DB, error)
	// temporal connects to Temporal, once.
	temporal func() (cluster, error)
}

// cluster is a connection to the configured cluster.
type cluster struct {
	temporalconn.Conn
	address, namespace string
}

func newExamination(ctx context.Context, a *app.App, cfg config.Config) *examination {
	return &examination{app: a, cfg: cfg,
		journal: sync.OnceValues(func() (*journal.DB, error) {
			if !engine.HasJournal(cfg) {
				return nil, nil //nolint:nilnil // there need not be one
			}
			return app.OpenJournal(ctx, cfg)
		}),
		temporal: sync.OnceValues(func() (c cluster, err error) {
			c.address, c.namespace, err = temporalconn.FromConfig(cfg.Temporal, a.Environ).Resolved()
			if err == nil {
				c.Conn, err = a.Dial(ctx, cfg)
			}
			return c, err
		}),
	}
}

// close closes what the checks have opened. All of them have ended.
func (x *examination) close() {
	if j, _ := x.journal(); j != nil {
		_ = j.Close() // every check has its result
	}
	if c, _ := x.temporal(); c.Conn != nil {
		c.Close()
	}
}

// lowDisk is the free space below which the doctor warns of the journal's disk, in bytes.
const lowDisk = 64 << 20

// checkJournal reads the journal and writes to it.
func checkJournal(ctx context.Context, x *examination) (string, error) {
	place := x.cfg.Journal.Place()
	j, err := x.journal()
	switch {
	case err != nil:
		return "", err
	case j == nil:
		return place + ", does not exist yet", nil
	}
	sessions, err := j.Sessions(ctx, 1)
	if err == nil {
		err = j.CheckWrite(ctx)
	}
	if err != nil {
		return "", err
	}
	if x.cfg.Journal.Driver == config.DriverSQLite {
		var disk syscall.Statfs_t
		free := uint64(lowDisk)
		if syscall.Statfs(x.cfg.Journal.Path, &disk) == nil {
			free = disk.Bavail * uint64(disk.Bsize)
		}
		if free < lowDisk {
			return "", &warning{fmt.Sprintf("%s, whose disk has only %d MiB left", place, free>>20)}
		}
	}
	if len(sessions) == 0 {
		return place + ", empty", nil
	}
	return fmt.Sprintf("%s, last used %s", place, sessions[0].UpdatedAt.Local().Format(time.DateTime)), nil
}

func checkModel(ctx context.Context, x *examination) (string, error) {
	found, err := engine.CheckModel(ctx, x.cfg)
	var rejected *turn.Error
	if errors.As(err, &rejected) && (rejected.Code == turn.CodeLLMRejected || rejected.Code == turn.CodeLLMUnauthorized) {
		return "", &app.ExitError{Code: app.ExitCredentials, Cause: err}
	}
	return found, err
}

// checkTools connects to the servers and adds the problems that running workers report, because a worker may run
// elsewhere.
func checkTools(ctx context.Context, x *examination) (string, error) {
	if err := x.app.CheckEnviron(); err != nil {
		return "", err
	}
	catalogues, _, err := engine.AskServers(ctx, x.cfg, engine.WithEnviron(x.app.Environ))
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
	j, err := x.journal()
	if err != nil || j == nil {
		return found, errors.Join(problems...)
	}
	published, workers, err := reportedIn(ctx, j)
	if err != nil {
		return found, errors.Join(append(problems, unchecked("journal"))...)
	}
	quarantined := 0
	for _, c := range byServer(published) {
		quarantined += len(c.Quarantined)
	}
	if quarantined > 0 {
		found += fmt.Sprintf(", %d quarantined (see `everturn tools diff`)", quarantined)
	}
	if err := errors.Join(append(problems, workersProblems(workers)...)...); err != nil {
		return found, err
	}
	queue := x.cfg.Temporal.TaskQueue
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
func checkTemporal(ctx context.Context, x *examination) (found string, err error) {
	c, err := x.temporal()
	if err != nil {
		return "", err
	}
	version, err := temporalconn.ServerVersion(ctx, c)
	if err != nil {
		return "", err
	}
	return "server " + version, temporalconn.CheckOwner(ctx, c, c.address, c.namespace, x.cfg.Journal.Path)
}

// checkWorker checks whether a worker polls the task queue. It only warns, because no worker is needed until a turn
// starts.
func checkWorker(ctx context.Context, x *examination) (string, error) {
	c, err := x.temporal()
	if err != nil {
		return "", unchecked("Temporal")
	}
	queue := x.cfg.Temporal.TaskQueue
	workers, err := temporalconn.Pollers(ctx, c, queue)
	if err != nil {
		return "", &warning{err.Error()}
	}
	if len(workers) == 0 {
		return "", &warning{fmt.Sprintf("none polls task queue %s, so turns would wait: start one with `everturn dev` or "+
			"`everturn worker`", queue)}
	}
	missing, err := unpolled(ctx, c, x.cfg)
	if err != nil {
		return "", &warning{err.Error()}
	}
	id, err := x.journalID(ctx)
	if err != nil {
		return "", unchecked("journal")
	}
	if others := temporalconn.WithOtherJournal(workers, id); len(others) > 0 {
		return "", app.Usage("%s polls task queue %s (now or in the last minute) but uses another journal than %s, so this "+
			"command cannot show its turns: stop it, or give it another [temporal] task_queue",
			app.Line(others[0].Identity, 80), queue, x.cfg.Journal.Place())
	}
	if others := temporalconn.WithOtherSettings(workers, x.cfg.Settings()); len(others) > 0 {
		return "", &warning{app.OtherSettings(others, queue)}
	}
	if missing != "" {
		return "", &warning{missing}
	}
	return fmt.Sprintf("%d polling task queue %s", len(workers), queue), nil
}

// journalID returns the ID of the journal, or "" if there is no journal yet.
func (x *examination) journalID(ctx context.Context) (string, error) {
	j, err := x.journal()
	if err != nil || j == nil {
		return "", err
	}
	return j.ID(ctx)
}

// unpolled describes the first role or server that no running worker has, "" if there is none. A worker with all roles
// polls the task queues of all of them.
func unpolled(ctx context.Context, c temporalconn.Conn, cfg config.Config) (string, error) {
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
func checkHistory(ctx context.Context, x *examination) (string, error) {
	j, err := x.journal()
	switch {
	case err != nil:
		return "", unchecked("journal")
	case j == nil:
		return "no turn yet", nil
	}
	c, err := x.temporal()
	if err != nil {
		return "", unchecked("Temporal")
	}
	listed, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: c.namespace, PageSize: comparedTurns,
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Completed' AND TaskQueue = %s",
			workflows.TurnWorkflow, strconv.Quote(x.cfg.Temporal.TaskQueue)),
	})
	if err != nil {
		return "", fmt.Errorf("listing the latest turns: %w", err)
	}
	compared := 0
	for _, e := range listed.GetExecutions() {
		session, ours := workflows.SessionOf(x.cfg.Tenant, e.GetExecution().GetWorkflowId())
		if !ours {
			continue
		}
		begun := e.GetStartTime().AsTime()
		s, err := j.Session(ctx, session)
		switch {
		case err != nil && !errors.Is(err, journal.ErrNotFound):
			return "", err
		case err != nil || s.UpdatedAt.Add(clockSkew).Before(begun):
			return "", &warning{fmt.Sprintf("the journal lacks the turn of session %s that began at %s and has ended in "+
				"Temporal: it was restored to an earlier moment, or is another one. Restore a later copy, or go on without "+
				"what it lacks", app.Line(session, 80), begun.Local().Format(time.DateTime))}
		}
		compared++
	}
	return fmt.Sprintf("the journal has the last %s of Temporal", ui.Count(compared, "turn")), nil
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
