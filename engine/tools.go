package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/activities/tools"
	canvastools "github.com/everturn/everturn/activities/tools/canvas"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/activities/tools/shell"
	"github.com/everturn/everturn/activities/tools/web"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows/turn"
)

// openTools creates the registry of the tools that this worker offers: the built-in ones that the configuration turns
// on, those of the embedding program, and those of MCP servers. It does not connect to the servers.
func (e *Engine) openTools(ctx context.Context) error {
	if err := e.cfg.CheckEnviron(e.options.environ); err != nil {
		return err
	}
	root, err := workspace(e.cfg)
	if err != nil {
		return err
	}
	remote, err := e.options.setLogins(servers(e.cfg))
	if err != nil {
		return err
	}
	// Servers that this worker does not host are removed only now, because a login may be for one of them.
	remote = slices.DeleteFunc(remote, func(s mcp.Server) bool {
		return !slices.ContainsFunc(e.cfg.MCP.Servers, func(c config.MCPServer) bool {
			return c.ID == s.ID && e.cfg.Worker.Hosts(c)
		})
	})
	host, err := mcp.New(mcp.Options{
		// The other quarter of the worker's concurrent activities is for work that does not call an MCP server.
		MaxCalls: max(e.cfg.Worker.MaxConcurrentActivities*3/4, 1),
		Servers:  remote, MaxResultBytes: e.cfg.Runtime.MaxResultBytes,
		Environ: temporalconn.Environ(e.options.environ).LookupEnv, Secrets: e.secrets, Logger: e.log,
		OnProcess: e.sendProcess,
	})
	if err != nil {
		return err
	}
	e.tools = tools.New(tools.Options{
		MaxResultBytes: e.cfg.Runtime.MaxResultBytes, Secrets: e.secrets, Logger: e.log,
	}, host)
	rules := fileRules(e.cfg, e.options.environ)
	repo, err := e.canvas(ctx)
	if err != nil {
		return err
	}
	if repo != nil {
		if err := canvastools.Register(e.tools, repo, rules.Hidden); err != nil {
			return err
		}
	}
	if s := e.cfg.Shell; s.Enabled {
		err := shell.Register(e.tools, shell.Options{Workspace: root, Write: s.Write, Environ: s.EnvAllow, Timeout: s.Timeout,
			Hidden: rules.Hidden, Protected: rules.Protected})
		if err != nil {
			return temporalconn.WithKind(config.ErrInvalid, err)
		}
	}
	if w := e.cfg.Web; w.Fetch {
		if err := web.Register(e.tools, web.Options{Hosts: w.Hosts, Networks: w.Networks}); err != nil {
			return err
		}
	}
	return errors.Join(
		files.Register(e.tools, root, rules),
		registerArtifacts(e.tools, e.artifacts, e.cfg.Runtime.MaxResultBytes),
		e.options.register(e.tools),
	)
}

// outdated reports whether ours, this worker's catalogue of a server, must replace the published one: the published one
// has another version, or is marked as unavailable although this worker reaches the server, or is marked as available
// although no worker reaches it.
func (e *Engine) outdated(ctx context.Context, published, ours turn.Catalogue) bool {
	if ours.Problem != "" {
		return published.Problem == "" && !e.availableElsewhere(ctx, ours)
	}
	return published.Problem != "" || published.Version() != ours.Version()
}
