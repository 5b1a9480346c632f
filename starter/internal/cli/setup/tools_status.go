package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/adapters"
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
			if err == nil && slices.ContainsFunc(all, client.ServerStatus.Unavailable) {
				return &app.ExitError{Code: app.ExitFailed}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&connect, "connect", false, "connect to the servers, whatever the workers report")
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// readStatus returns the status of each configured server: see client.Servers.Status. It connects to the servers of
// which neither a worker nor the journal knows or, if connect is true, to all servers; their status then replaces what
// workers report.
func readStatus(ctx context.Context, a *app.App, loaded *config.Loaded, connect bool) ([]client.ServerStatus, error) {
	cfg := loaded.Config
	known, err := readServers(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ask := cfg // with only the servers to connect to
	ask.MCP.Servers = slices.DeleteFunc(slices.Clone(cfg.MCP.Servers), func(s config.MCPServer) bool {
		return !connect && known.Knows(s.ID)
	})
	if len(ask.MCP.Servers) > 0 {
		if err := loaded.CheckEnviron(a.Environ); err != nil {
			return nil, err
		}
		catalogues, health, err := adapters.AskServers(ctx, ask, a.Environ)
		if err != nil {
			return nil, err
		}
		known = known.Asked(catalogues, health, connect)
	}
	return known.Status(cfg.MCP.Servers), nil
}

// readServers opens the journal, if there is one, and returns what it knows of MCP servers.
func readServers(ctx context.Context, cfg config.Config) (s client.Servers, err error) {
	if !client.HasJournal(cfg) {
		return client.ReadServers(ctx, nil)
	}
	j, err := app.OpenJournal(ctx, cfg)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	return client.ReadServers(ctx, j)
}

// printStatus prints a table of the servers with their processes and tenants and, on stderr, their problems.
func printStatus(a *app.App, all []client.ServerStatus) error {
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
func noteProblems(a *app.App, s client.ServerStatus) {
	failing := slices.DeleteFunc(slices.Clone(s.Tenants),
		func(t turn.TenantHealth) bool { return t.State != turn.ServerFailing })
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
