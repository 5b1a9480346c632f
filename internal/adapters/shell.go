package adapters

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/canvas"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/activities/tools/shell"
	"github.com/everturn/everturn/activities/tools/shell/proxy"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/sandbox"
	"github.com/everturn/everturn/internal/statedir"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/journal"
)

// maxCommandFile bounds a file that a command writes, in bytes.
const maxCommandFile = 1 << 30

// OpenSandbox returns the sandbox of commands, after it has tried it. The error matches sandbox.ErrUnavailable if this
// machine cannot isolate commands as the configuration says. environ has the form of os.Environ.
func OpenSandbox(ctx context.Context, cfg config.Config, environ []string) (*sandbox.Sandbox, error) {
	c := cfg.Sandbox
	var read []string
	for _, p := range c.Read {
		absolute, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		read = append(read, absolute)
	}
	return sandbox.Open(ctx, sandbox.Options{Level: c.Level, Network: c.Network, Read: read, Environ: environ,
		Variables: cfg.Shell.EnvAllow, Limits: sandbox.Limits{Processes: c.Processes, Memory: int64(c.MemoryMiB) << 20,
			File: maxCommandFile}})
}

// registerShell adds the tool shell if the configuration turns it on. Its commands act in the tree of the call's
// session, or in the folder of all sessions if there are no trees. If this machine cannot isolate commands,
// registerShell logs that the tool is not offered.
func registerShell(ctx context.Context, r *tools.Registry, cfg config.Config, o ToolOptions, trees *canvas.Roots,
	rules files.Options) error {
	if !cfg.Shell.Enabled {
		return nil
	}
	root, err := filepath.Abs(cfg.Runtime.Workspace)
	if err != nil {
		return err
	}
	cache := commandCache(root, o.Environ)
	folder := shell.Folder{Workspace: root, Write: cfg.Shell.Write, Hidden: rules.Hidden, Protected: rules.Protected,
		Git: cfg.Sandbox.Level == sandbox.LevelNamespace, Cache: cache}
	options := shell.Options{Places: folder, Where: folder.Where(), Timeout: cfg.Shell.Timeout,
		Trusted: trustsWorkspace(cfg), Ended: endedTurns(o.Artifacts), Proxy: proxy.Options{Hosts: cfg.Sandbox.Hosts},
		Records: filepath.Join(cfg.StateDir(), "jobs")}
	if err := options.Proxy.Check(); err != nil {
		return temporalconn.WithKind(config.ErrInvalid, fmt.Errorf("sandbox.hosts: %w", err))
	}
	if trees != nil {
		options.Places = treePlaces{*trees, rules, cache}
		options.Where = "the workspace, this session's own copy of a git repository, where it can write everything"
	} else if err := folder.Check(); err != nil {
		return temporalconn.WithKind(config.ErrInvalid, err)
	}
	if trees != nil && trees.Setup != nil {
		options.Before = trees.Setup.Timeout
	}
	options.Sandbox, err = OpenSandbox(ctx, cfg, o.Environ)
	if errors.Is(err, sandbox.ErrUnavailable) {
		o.Log.Warn("the tool shell is not offered", "error", err)
		r.Drop("shell: " + err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	return shell.Register(r, options)
}

// treePlaces are the trees of sessions as the places of commands: see shell.Places. What a command has changed becomes
// a commit, even if it fails. A file that looks like one with credentials is not hidden if a commit has it: git shows it
// anyway, and could not commit a tree that lacks it.
type treePlaces struct {
	trees canvas.Roots
	rules files.Options
	cache string
}

// In implements shell.Places.
func (t treePlaces) In(ctx context.Context, title string, run func(sandbox.Place) (string, error)) (string, error) {
	return t.trees.Change(ctx, title, t.in(ctx, run))
}

// StartJob implements shell.Places.
func (t treePlaces) StartJob(ctx context.Context, title string, atMost time.Duration,
	run func(sandbox.Place) (string, error)) (string, error) {
	return t.trees.StartJob(ctx, title, atMost, t.in(ctx, run))
}

// JobEnded implements shell.Places.
func (t treePlaces) JobEnded(ctx context.Context) (string, error) { return t.trees.JobEnded(ctx) }

// in returns a function that calls run with the place of commands in the tree dir.
func (t treePlaces) in(ctx context.Context, run func(sandbox.Place) (string, error)) func(dir string) (string, []string,
	error) {
	return func(dir string) (string, []string, error) {
		p, err := treePlace(ctx, t.trees.Store, t.rules, t.cache, dir)
		if err != nil {
			return "", nil, err
		}
		done, err := run(p)
		return done, nil, err
	}
}

// treePlace returns the directory of a tree as the place of a command.
func treePlace(ctx context.Context, store *workspace.Store, rules files.Options, cache, dir string) (sandbox.Place, error) {
	req, _ := tools.CallInfo(ctx)
	committed, err := store.Has(ctx, req.Tenant, req.Session)
	if err != nil {
		return sandbox.Place{}, err
	}
	folder := shell.Folder{Workspace: dir, Write: []string{"."}, Cache: cache, Git: true,
		Hidden: func(path string) bool { return rules.Hidden(path) && !committed(path) }}
	p, err := folder.Place(ctx)
	p.ForeignGit = false // the tree's own repository is the session's
	for _, objects := range store.Borrowed() {
		p.Binds = append(p.Binds, sandbox.Bind{Source: objects})
	}
	return p, err
}

// endedTurns returns a function that reports whether a turn has ended, by the journal of source. It is nil if there is
// no journal that knows turns.
func endedTurns(source func() Artifacts) func(ctx context.Context, turnID string) bool {
	return func(ctx context.Context, turnID string) bool {
		j, ok := source().(interface {
			Turn(ctx context.Context, turnID string) (journal.TurnRecord, error)
		})
		if !ok {
			return false
		}
		found, err := j.Turn(ctx, turnID)
		return err == nil && !found.EndedAt.IsZero()
	}
}

// commandCache returns the directory for the caches of commands in a workspace, which is in the user's state folder, or
// "" if there is no such folder. The first command makes it.
func commandCache(workspace string, environ []string) string {
	lookup := temporalconn.Environ(environ).LookupEnv
	state, _ := lookup("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, _ := lookup("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	if real, err := filepath.EvalSymlinks(workspace); err == nil {
		workspace = real
	}
	sum := sha256.Sum256([]byte(workspace))
	return filepath.Join(state, statedir.Name, "commands", hex.EncodeToString(sum[:8]))
}
