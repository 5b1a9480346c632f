package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// lowDisk is the free space on the journal's disk, in bytes, below which the doctor warns.
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
	if !x.cfg.Journal.Postgres() {
		var disk syscall.Statfs_t
		free := uint64(lowDisk) // no warning if the free space is unknown
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

// checkModel checks that the configured provider answers and accepts the credentials, without an inference.
func checkModel(ctx context.Context, x *examination) (string, error) {
	found, err := adapters.CheckModel(ctx, x.cfg)
	var rejected *turn.Error
	if errors.As(err, &rejected) && (rejected.Code == turn.CodeLLMRejected || rejected.Code == turn.CodeLLMUnauthorized) {
		return "", &app.ExitError{Code: app.ExitCredentials, Cause: err}
	}
	return found, err
}

// checkCommands tries the isolation of commands. It runs only if the configuration offers the tool shell.
func checkCommands(ctx context.Context, x *examination) (string, error) {
	box, err := adapters.OpenSandbox(ctx, x.cfg, x.app.Environ)
	if err != nil {
		return "", fmt.Errorf("the tool shell is not offered: %w", err)
	}
	return box.String(), nil
}

// checkTools connects to the MCP servers and counts the tools. It fails if this process or a running worker cannot use
// a server, because a worker on another machine may have other problems. It warns if workers of the same task queue
// offer different tools, and counts the quarantined tools. If there is no journal, it knows neither workers nor
// quarantine.
func checkTools(ctx context.Context, x *examination) (string, error) {
	if err := x.app.CheckEnviron(); err != nil {
		return "", err
	}
	catalogues, servers, err := adapters.AskServers(ctx, x.cfg, x.app.Environ)
	if err != nil {
		return "", err
	}
	found, problems := countTools(catalogues, len(servers))
	j, err := x.journal()
	if err != nil || j == nil { // checkJournal reports err
		return found, errors.Join(problems...)
	}
	known, err := client.ReadServers(ctx, j)
	if err != nil {
		return found, cmp.Or(errors.Join(problems...), unchecked("journal"))
	}
	if n := known.Quarantined(); n > 0 {
		found += fmt.Sprintf(", %d quarantined (see `everturn tools diff`)", n)
	}
	if err := errors.Join(append(problems, reportedProblems(known.Workers)...)...); err != nil {
		return found, err
	}
	return found, toolDifferences(known, x.cfg.Temporal.TaskQueue)
}

// countTools describes how many tools the catalogues have, and of how many servers. The local tools are one of the
// catalogues, but of no server. problems has an error for each server that is unavailable.
func countTools(catalogues []turn.Catalogue, servers int) (found string, problems []error) {
	tools := 0
	for _, c := range catalogues {
		tools += len(c.Tools)
		if c.Problem != "" {
			problems = append(problems, errors.New(c.Problem))
		}
	}
	found = ui.Count(tools, "tool")
	if servers > 0 {
		found += ", with those of " + ui.Count(servers, "server")
	}
	return found, problems
}

// toolDifferences returns a warning if the workers of a task queue offer different tools, and nil otherwise.
func toolDifferences(known client.Servers, queue string) error {
	var differences []string
	for _, d := range known.Differences(queue) {
		differences = append(differences,
			fmt.Sprintf("%s by %s", app.Line(d.Tool, 60), app.Line(strings.Join(d.Workers, ", "), 120)))
	}
	if len(differences) == 0 {
		return nil
	}
	return &warning{fmt.Sprintf("the workers of task queue %s offer different tools: %s. A turn has the tools of the "+
		"worker that begins it: give all of them the same agent.toml and program", queue, strings.Join(differences, "; "))}
}

// reportedProblems returns an error for each server that a running worker cannot use.
func reportedProblems(workers []client.WorkerReport) (problems []error) {
	for _, w := range workers {
		for _, s := range w.Servers {
			if s.State == turn.ServerFailing {
				problems = append(problems, fmt.Errorf("server %s has failed for worker %s since %s: %s", s.Server, w.Identity,
					s.Since.Local().Format(time.TimeOnly), s.LastError))
			}
		}
	}
	return problems
}

// checkTemporal connects to Temporal and reads its version. It also checks that a development server does not belong to
// another folder, because a worker of this folder would refuse that server.
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

// checkWorker checks whether workers poll all task queues of the configuration, with the same settings. These are
// warnings, because turns would only wait. It fails if a worker of the task queue uses another journal.
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
	missing, err := missingWorker(ctx, c, x.cfg)
	if err != nil {
		return "", &warning{err.Error()}
	}
	id, err := x.journalID(ctx)
	if err != nil {
		return "", unchecked("journal")
	}
	if others := temporalconn.WithOtherJournal(workers, id); len(others) > 0 { // a failure goes before the warnings
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
	if x.cfg.Workspace.Mode == config.WorkspaceFolder && x.cfg.LocalFiles.Write && onMachines(workers) > 1 {
		return "", &warning{fmt.Sprintf("workers of %d machines poll task queue %s, and each changes files in a folder of "+
			"its own: "+
			"set mode = \"tree\" under [workspace], or share runtime.workspace", onMachines(workers), queue)}
	}
	return fmt.Sprintf("%d polling task queue %s", len(workers), queue), nil
}

// onMachines returns the number of machines of workers.
func onMachines(workers []temporalconn.Poller) int {
	hosts := map[string]bool{}
	for _, w := range workers {
		hosts[temporalconn.Host(w.Identity)] = true
	}
	return len(hosts)
}

// journalID returns the ID of the journal, or "" if there is no journal yet.
func (x *examination) journalID(ctx context.Context) (string, error) {
	j, err := x.journal()
	if err != nil || j == nil {
		return "", err
	}
	return j.ID(ctx)
}

// missingWorker returns a text about the first role or server whose task queue no worker polls, with the worker to
// start. It returns "" if workers poll all of them.
func missingWorker(ctx context.Context, c temporalconn.Conn, cfg config.Config) (string, error) {
	type need struct{ queue, start string }
	needed := []need{{cfg.Queue(config.RoleTools), `with the role "tools" in worker.roles`}}
	if cfg.ProviderKnown() { // the name of the queue depends on the provider
		needed = append(needed, need{cfg.Queue(config.RoleInference),
			`with the role "inference" in worker.roles and the same [llm] as here`})
	}
	for _, s := range cfg.MCP.Servers {
		if s.Queue != "" {
			needed = append(needed, need{cfg.ServerQueue(s.Queue),
				fmt.Sprintf("with %q in worker.roles, for server %s", s.Queue, s.ID)})
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
	// comparedTurns is the number of latest turns in Temporal that checkHistory looks up in the journal.
	comparedTurns = 20
	// clockSkew is the largest expected difference between the clocks of Temporal and the workers.
	clockSkew = time.Minute
)

// checkHistory warns about a turn that has ended in Temporal, if the journal lacks its session or the turn began after
// the journal's last entry of the session: the journal was restored to an earlier moment, or is another one.
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
		case err != nil && !errors.Is(err, client.ErrNotFound):
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

// onCluster calls do with a connection to the configured Temporal cluster, its address and its namespace.
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
