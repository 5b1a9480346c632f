package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/workflows/turn"
)

// toolsStatus returns the command that shows the state of the MCP servers.
func toolsStatus(a *app.App) *cobra.Command {
	var connect bool
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the configured MCP servers",
		Long: `Show the state of the configured MCP servers: as the running workers report it to the journal,
otherwise as the journal's catalogues have it. The command itself connects to servers that neither a
worker nor the journal knows and, with --connect, to all servers.
A worker that was killed is shown for up to 15 seconds.

Exit codes: 0 every server is available, 1 a server fails or is unavailable.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			all, err := readStatus(cmd.Context(), a, loaded, connect)
			if err != nil {
				return err
			}
			err = app.PrintList(a.Out, output, all, func() error { return printStatus(a, all) })
			if err == nil && slices.ContainsFunc(all, serverStatus.unavailable) {
				return &app.ExitError{Code: app.ExitFailed}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&connect, "connect", false, "connect to the servers, whatever the workers report")
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// The states of a server whose health no running worker reports.
const (
	statePublished   = "published"   // the server was available when a worker last published its tools
	stateUnavailable = "unavailable" // the server was not available then
)

// serverStatus is the status of one server, from a worker, from the journal or from this command's own connection.
type serverStatus struct {
	engine.ServerHealth
	Worker      string `json:"worker,omitempty"` // empty if no worker reported the status
	Required    bool   `json:"required,omitempty"`
	Tools       int    `json:"tools"`
	Quarantined int    `json:"quarantined"`
	Dropped     int    `json:"dropped"`
	// Misnamed are tools that agent.toml names and the server does not offer.
	Misnamed []string `json:"misnamed,omitempty"`
	Problem  string   `json:"problem,omitempty"` // why the server cannot be used now
}

// unavailable reports whether the server cannot be used now.
func (s serverStatus) unavailable() bool { return s.Problem != "" || s.State == engine.ServerFailing }

// readStatus returns the status of each configured server: one for each worker that reports on it, or one without a
// worker if none does. It connects to the servers of which the journal has nothing or, if connect is true, to all
// servers; their status then replaces what workers report.
func readStatus(ctx context.Context, a *app.App, loaded *config.Loaded, connect bool) ([]serverStatus, error) {
	cfg := loaded.Config
	list, workers, err := reported(ctx, cfg)
	if err != nil {
		return nil, err
	}
	published := byServer(list)
	ask := cfg // with only the servers to connect to
	ask.MCP.Servers = slices.DeleteFunc(slices.Clone(cfg.MCP.Servers), func(s config.MCPServer) bool {
		_, known := published[s.ID]
		return !connect && (known || isReported(workers, s.ID))
	})
	if len(ask.MCP.Servers) > 0 {
		if err := loaded.CheckEnviron(a.Environ); err != nil {
			return nil, err
		}
		asked, health, err := engine.AskServers(ctx, ask, engine.WithEnviron(a.Environ))
		if err != nil {
			return nil, err
		}
		if connect {
			workers = nil
		}
		published = maps.Clone(published)
		for _, c := range asked { // only the journal knows the quarantined tools
			c.Quarantined = published[c.Server].Quarantined
			published[c.Server] = c
		}
		for i := range health {
			health[i].RetryAt = time.Time{} // this command does not try again
		}
		workers = append(workers, engine.WorkerHealth{Servers: health})
	}
	return joinStatus(cfg, published, list, workers), nil
}

// isReported reports whether one of the workers reports on a server.
func isReported(workers []engine.WorkerHealth, server string) bool {
	return slices.ContainsFunc(workers, func(w engine.WorkerHealth) bool {
		return slices.ContainsFunc(w.Servers, func(h engine.ServerHealth) bool { return h.Server == server })
	})
}

// reported opens the journal and returns its catalogues, as client.Journal.Catalogues does, and the health of the
// running workers. Without a journal it returns neither.
func reported(ctx context.Context, cfg config.Config) (published []turn.Catalogue, workers []engine.WorkerHealth,
	err error) {
	if !client.HasJournal(cfg) {
		return nil, nil, nil
	}
	j, err := app.OpenJournal(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return reportedIn(ctx, j)
}

// reportedIn is reported for an open journal.
func reportedIn(ctx context.Context, j client.Journal) ([]turn.Catalogue, []engine.WorkerHealth, error) {
	list, err := j.Catalogues(ctx)
	if err != nil {
		return nil, nil, err
	}
	workers, err := engine.Health(ctx, j)
	return list, workers, err
}

// byServer returns the latest catalogue of each server. The latest one is first in list.
func byServer(list []turn.Catalogue) map[string]turn.Catalogue {
	out := make(map[string]turn.Catalogue, len(list))
	for _, c := range slices.Backward(list) { // so that the first one wins
		out[c.Server] = c
	}
	return out
}

// catalogueStatus returns the part of a server's status that comes from its catalogue.
func catalogueStatus(s config.MCPServer, c turn.Catalogue) serverStatus {
	return serverStatus{Required: s.Required, Tools: len(c.Tools), Quarantined: len(c.Quarantined),
		Dropped: len(c.Dropped), Misnamed: c.Misnamed, Problem: c.Problem}
}

// joinStatus returns the status of each configured server for each worker that reports on it, with the version of the
// catalogue in list that the worker offers. A server without such a worker gets one status from published.
func joinStatus(cfg config.Config, published map[string]turn.Catalogue, list []turn.Catalogue,
	workers []engine.WorkerHealth) []serverStatus {
	all := []serverStatus{}
	for _, s := range cfg.MCP.Servers {
		reported := false
		for _, w := range workers {
			c := published[s.ID] // or the version that this worker offers
			if i := slices.IndexFunc(list, func(c turn.Catalogue) bool {
				return c.Server == s.ID && c.Version() == w.Offers[s.ID]
			}); i >= 0 {
				c = list[i]
			}
			for _, h := range w.Servers {
				if h.Server == s.ID {
					row := catalogueStatus(s, c)
					row.ServerHealth, row.Worker, reported = h, w.Worker, true
					row.Problem = problemNow(h, c)
					all = append(all, row)
				}
			}
		}
		if c := published[s.ID]; !reported {
			row := catalogueStatus(s, c)
			row.Server, row.State = s.ID, statePublished
			if c.Problem != "" {
				row.State = stateUnavailable
			}
			all = append(all, row)
		}
	}
	return all
}

// problemNow returns why a worker cannot use a server, by the worker's report h, or "" if it can. The problem in the
// catalogue c alone does not count, because c may be older than the report.
func problemNow(h engine.ServerHealth, c turn.Catalogue) string {
	if h.State == engine.ServerFailing {
		return cmp.Or(h.LastError, c.Problem, "the server fails")
	}
	return ""
}

// printStatus prints a table of the servers with their processes and tenants and, on stderr, their problems.
func printStatus(a *app.App, all []serverStatus) error {
	if len(all) == 0 {
		a.Note("no MCP servers are configured: see [[mcp.servers]] in `everturn init`")
		return nil
	}
	heads := []string{"SERVER", "STATE", "SINCE", "TOOLS", "QUARANTINED", "CALLS", "FAILURES", "RESTARTS", "WORKER"}
	var rows [][]string
	add := func(cells ...any) { // the cells that are missing at the end are empty
		row := make([]string, len(heads))
		for i, c := range cells {
			row[i] = fmt.Sprint(c)
		}
		rows = append(rows, row)
	}
	for _, s := range all {
		since := "-"
		if !s.Since.IsZero() {
			since = s.Since.Local().Format(time.DateTime)
		}
		add(app.Line(s.Server, 40), s.State, since, s.Tools, s.Quarantined, s.Calls, s.Failures, s.Restarts,
			app.Line(cmp.Or(s.Worker, "-"), 60))
		for _, e := range s.Processes {
			state, at := cmp.Or(e.Ended, "started"), e.At.Local().Format(time.DateTime)
			add(fmt.Sprintf("  process %d", e.PID), state, at)
		}
		for _, t := range s.Tenants {
			add("  "+tenantName(t.Tenant), t.State, t.Since.Local().Format(time.DateTime))
		}
	}
	if err := a.Table(heads, rows); err != nil {
		return err
	}
	for _, s := range all {
		noteProblems(a, s)
	}
	return nil
}

// tenantName returns the name of a tenant for output. Each tenant has its own connections to a server.
func tenantName(tenant string) string {
	if tenant == "" {
		return "default tenant"
	}
	return "tenant " + app.Line(tenant, 64)
}

// noteProblems prints notes about a server's problems and the tools that it lacks.
func noteProblems(a *app.App, s serverStatus) {
	failing := slices.DeleteFunc(slices.Clone(s.Tenants),
		func(t engine.TenantHealth) bool { return t.State != engine.ServerFailing })
	switch {
	case len(failing) > 0:
		for _, t := range failing {
			a.Note("%s is not available for the %s; the next attempt is at %s: %s", s.Server, tenantName(t.Tenant),
				t.RetryAt.Local().Format(time.TimeOnly), t.Problem)
		}
	case s.Problem != "" && !s.RetryAt.IsZero():
		a.Note("%s is not available; the next attempt is at %s: %s", s.Server, s.RetryAt.Local().Format(time.TimeOnly),
			s.Problem)
	case s.Problem != "":
		a.Note("%s is not available: %s", s.Server, s.Problem)
	case s.LastError != "":
		a.Note("%s: its last error was at %s: %s", s.Server, s.LastErrorAt.Local().Format(time.DateTime), s.LastError)
	}
	noteQuarantined(a, s.Server, s.Quarantined)
	if s.Dropped > 0 {
		a.Note("%s: %s left out: see `everturn tools`", s.Server, ui.Count(s.Dropped, "tool"))
	}
	noteMisnamed(a, s.Server, s.Misnamed)
}
