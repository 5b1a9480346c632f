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

// openTools creates the registry with the file tools, the embedding program's own and the MCP servers. It connects to
// none of them.
func (e *Engine) openTools(ctx context.Context) error {
	if err := e.cfg.CheckEnviron(e.options.environ); err != nil {
		return err
	}
	root, err := workspace(e.cfg)
	if err != nil {
		return err
	}
	remote, err := e.options.logIn(servers(e.cfg))
	if err != nil {
		return err
	}
	remote = slices.DeleteFunc(remote, func(s mcp.Server) bool {
		return !slices.ContainsFunc(e.cfg.MCP.Servers, func(c config.MCPServer) bool {
			return c.ID == s.ID && e.cfg.Worker.Hosts(c)
		})
	})
	host, err := mcp.New(mcp.Options{
		MaxCalls: max(e.cfg.Worker.MaxConcurrentActivities*3/4, 1),
		Servers:  remote, MaxResultBytes: e.cfg.Runtime.MaxResultBytes,
		Environ: temporalconn.Environ(e.options.environ).LookupEnv, Secrets: e.secrets, Logger: e.log,
	})
	if err != nil {
		return err
	}
	e.tools = tools.New(tools.Options{
		MaxResultBytes: e.cfg.Runtime.MaxResultBytes, Secrets: e.secrets, Logger: e.log,
	}, host)
	rules := fileRules(e.cfg, e.options.environ)
	repo, err := Canvas(ctx, e.cfg)
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

// outdated reports whether a published catalogue is not what this worker offers, or has another availability.
func (e *Engine) outdated(ctx context.Context, c, ours turn.Catalogue) bool {
	if ours.Problem != "" {
		return c.Problem == "" && !e.availableElsewhere(ctx, ours)
	}
	return c.Problem != "" || c.Version() != ours.Version()
}
