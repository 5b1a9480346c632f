package adapters

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/canvas"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/activities/tools/shell"
	"github.com/everturn/everturn/activities/tools/shell/proxy"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/childenv"
	"github.com/everturn/everturn/internal/sandbox"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/workspace"
)

// Publishing returns where canvases are published, or nil if the configuration says nothing about it. environ has the
// form of os.Environ.
func Publishing(cfg config.Config, environ []string) (*workspace.Publishing, error) {
	p := cfg.Workspace.Publish
	if p.Remote == "" {
		return nil, nil //nolint:nilnil // nowhere
	}
	if err := workspace.CheckRemote(p.Remote.Reveal()); err != nil {
		return nil, temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("workspace.publish.remote: %w", err))
	}
	to := &workspace.Publishing{Remote: p.Remote.Reveal(), Branch: p.Branch, PullRequest: p.PullRequest}
	for _, name := range append(append([]string{}, childenv.Base...), p.EnvAllow...) {
		if value, ok := temporalconn.Environ(environ).LookupEnv(name); ok {
			to.Environ = append(to.Environ, name+"="+value)
		}
	}
	return to, nil
}

// maxSetupOutput bounds what is kept of the output of a setup, in bytes.
const maxSetupOutput = 256 << 10

// openSetup returns the command that prepares new trees, or nil if the configuration names none, or if this machine
// cannot isolate commands, which openSetup logs.
func openSetup(ctx context.Context, r *tools.Registry, cfg config.Config, o ToolOptions, store *workspace.Store,
	rules files.Options) (*canvas.Setup, error) {
	line := cfg.Workspace.Setup
	if line == "" {
		return nil, nil //nolint:nilnil // none
	}
	box, err := OpenSandbox(ctx, cfg, o.Environ)
	if errors.Is(err, sandbox.ErrUnavailable) {
		o.Log.Warn("workspace.setup is not run in new trees", "error", err)
		r.Drop("workspace.setup: " + err.Error())
		return nil, nil //nolint:nilnil // as if there were none
	}
	if err != nil {
		return nil, err
	}
	users := box
	if network := cfg.Workspace.SetupNetwork; network != "" {
		cfg.Sandbox.Network = network
		if users, err = OpenSandbox(ctx, cfg, o.Environ); err != nil {
			return nil, err
		}
	}
	root, err := filepath.Abs(cfg.Runtime.Workspace)
	if err != nil {
		return nil, err
	}
	cache := commandCache(root, o.Environ)
	return &canvas.Setup{Timeout: cfg.Shell.Timeout + shell.Grace,
		Run: func(ctx context.Context, dir string, usersOwn bool) (did workspace.Setup, err error) {
			options := shell.Options{Sandbox: box, Timeout: cfg.Shell.Timeout, Proxy: proxy.Options{Hosts: cfg.Sandbox.Hosts}}
			if usersOwn {
				options.Sandbox = users
			}
			place, err := treePlace(ctx, store, rules, cache, dir)
			if err != nil {
				return did, err
			}
			text, err := options.Run(ctx, line, place, r.Secrets())
			if ctx.Err() != nil {
				return did, ctx.Err()
			}
			if err != nil {
				text = err.Error()
			}
			end, output, _ := strings.Cut(r.Secrets().Mask(text), "\n")
			did = workspace.Setup{Command: line, At: time.Now().UTC(), Output: output[max(0, len(output)-maxSetupOutput):]}
			if err != nil {
				did.Problem = strings.Trim(end, "[]")
			}
			return did, nil
		}}, nil
}
