package adapters

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/canvas"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/activities/tools/web"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/workflows/turn"
)

// ToolOptions say which tools OpenTools offers besides those that the configuration turns on.
type ToolOptions struct {
	Environ []string // in the form of os.Environ
	Secrets *redact.Redactor
	Log     *slog.Logger
	Logins  map[string]mcp.Login // by server
	// Artifacts returns the journal of local/read_artifact, or nil if there is none.
	Artifacts func() Artifacts
	// Sessions returns the journal of the sessions that are forks, or nil if there is none. It may be nil.
	Sessions func() Sessions
	// Trees returns the journal of the trees of sessions, or nil if there is none. It may be nil.
	Trees func() Trees
	// Worker is the identity of this worker for other workers.
	Worker string
	// OnTrees gets the store of the trees, if sessions have some; it may be nil.
	OnTrees func(*workspace.Store)
	// OnProcess gets the start and the end of each process of an MCP server; it may be nil.
	OnProcess func(server string, p turn.ProcessEvent)
	// Add registers the embedding program's own tools.
	Add []func(*tools.Registry) error
}

// OpenTools creates the registry of the tools that this worker offers: the built-in ones that the configuration turns
// on, those of the embedding program, and those of MCP servers. It does not connect to the servers. The caller closes
// the registry.
func OpenTools(ctx context.Context, cfg config.Config, o ToolOptions) (*tools.Registry, error) {
	host, err := openHost(cfg, o)
	if err != nil {
		return nil, err
	}
	r := tools.New(tools.Options{MaxResultBytes: cfg.Runtime.MaxResultBytes, Secrets: o.Secrets, Logger: o.Log}, host)
	if err := register(ctx, r, cfg, o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// openHost creates the host of the MCP servers that this worker hosts.
func openHost(cfg config.Config, o ToolOptions) (*mcp.Host, error) {
	if err := cfg.CheckEnviron(o.Environ); err != nil {
		return nil, err
	}
	remote, err := withLogins(servers(cfg), o.Logins)
	if err != nil {
		return nil, err
	}
	// Servers that this worker does not host are removed only now, because a login may be for one of them.
	remote = slices.DeleteFunc(remote, func(s mcp.Server) bool {
		return !slices.ContainsFunc(cfg.MCP.Servers, func(c config.MCPServer) bool {
			return c.ID == s.ID && cfg.Worker.Hosts(c)
		})
	})
	return mcp.New(mcp.Options{
		// The other quarter of the worker's concurrent activities is for work that does not call an MCP server.
		MaxCalls: max(cfg.Worker.MaxConcurrentActivities*3/4, 1),
		Servers:  remote, MaxResultBytes: cfg.Runtime.MaxResultBytes,
		Environ: temporalconn.Environ(o.Environ).LookupEnv, Secrets: o.Secrets, Logger: o.Log, OnProcess: o.OnProcess,
	})
}

// register adds the local tools to a registry.
func register(ctx context.Context, r *tools.Registry, cfg config.Config, o ToolOptions) error {
	rules := fileRules(cfg, o.Environ)
	if w := cfg.Web; w.Fetch {
		if err := web.Register(r, web.Options{Hosts: w.Hosts, Networks: w.Networks}); err != nil {
			return temporalconn.WithKind(config.ErrInvalid, err)
		}
	}
	trees, err := openTrees(ctx, cfg, o)
	if err != nil {
		return err
	}
	if trees != nil {
		if trees.Setup, err = openSetup(ctx, r, cfg, o, trees.Store, rules); err != nil {
			return err
		}
	}
	if err := registerShell(ctx, r, cfg, o, trees, rules); err != nil {
		return err
	}
	errs := []error{registerFiles(r, cfg, o, trees, rules), registerArtifacts(r, o.Artifacts, cfg.Runtime.MaxResultBytes)}
	for _, add := range o.Add {
		errs = append(errs, add(r))
	}
	return errors.Join(errs...)
}

// registerFiles adds the tools that act on files: in the folder of all sessions, or in the tree of the call's session.
func registerFiles(r *tools.Registry, cfg config.Config, o ToolOptions, trees *canvas.Roots,
	rules files.Options) error {
	if trees == nil {
		return files.Register(r, cfg.Runtime.Workspace, rules)
	}
	to, err := Publishing(cfg, o.Environ)
	if err != nil {
		return err
	}
	return canvas.Register(r, *trees, rules, to)
}

// AskServers connects to the configured servers that this worker hosts, lists their tools and closes the connections.
// It needs no journal, model or Temporal server. It returns the catalogues of the local tools and of these servers, and
// the servers' state. environ has the form of os.Environ.
func AskServers(ctx context.Context, cfg config.Config, environ []string) ([]turn.Catalogue, []turn.ServerHealth,
	error) {
	secrets, log := Secrets(cfg, environ), slog.New(slog.DiscardHandler)
	r, err := OpenTools(ctx, cfg, ToolOptions{Environ: environ, Secrets: secrets, Log: log,
		Artifacts: func() Artifacts { return nil }})
	if err != nil {
		return nil, nil, err
	}
	if _, err := OpenInstructions(cfg, r, secrets, log); err != nil { // skills are a tool, too
		return nil, nil, errors.Join(err, r.Close())
	}
	catalogues := r.Catalogues(ctx)
	health := r.Health()
	return catalogues, health, r.Close()
}
