package talk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/chat"
)

func openStore(ctx context.Context, cfg config.Config) (*workspace.Store, error) {
	store, err := workspace.Open(ctx, workspace.Options{Repo: cfg.Runtime.Workspace, State: cfg.StateDir()})
	if err != nil {
		return nil, app.Usage("%v", err)
	}
	return store, nil
}

// withWorkspace adds what a chat does with the files of sessions, if a worker on this machine has them.
func withWorkspace(ctx context.Context, cfg config.Config, o *chat.Options) error {
	switch {
	case !loopback.Address(cfg.Temporal.Address): // a worker on another machine has another workspace
		return nil
	case cfg.Workspace.Mode == config.WorkspaceFolder:
		o.Workspace = func(string) string { return cfg.Runtime.Workspace }
		return nil
	}
	store, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	o.Workspace = func(session string) string { return store.Path(cfg.Tenant, session) }
	o.Undo = func(ctx context.Context, session string) (string, error) {
		return app.Undo(ctx, store, o.Journal, cfg.Tenant, session)
	}
	return nil
}

// maxNamed bounds how many files a note names.
const maxNamed = 5

// begin begins the tree of a new session with the user's files that are not committed, with --with-changes. note is
// for the user: it names those files if the tree is going to lack them.
func (f sessionFlags) begin(ctx context.Context, t *app.TurnClient, session string) (note string, err error) {
	if t.Cfg.Workspace.Mode != config.WorkspaceTree || !loopback.Address(t.Cfg.Temporal.Address) {
		if f.changes {
			return "", app.Usage("--with-changes needs mode = \"tree\" under [workspace], and a worker on this machine")
		}
		return "", nil
	}
	_, err = t.Journal.Session(ctx, session)
	switch {
	case err == nil && f.changes:
		return "", app.Usage("--with-changes is for a new session, and %s exists", app.Line(session, 100))
	case err == nil:
		return "", nil
	case !errors.Is(err, client.ErrNotFound):
		return "", err
	}
	store, err := openStore(ctx, t.Cfg)
	if err != nil {
		return "", err
	}
	if f.changes {
		a := workspace.Action{Tenant: t.Cfg.Tenant, Session: session}
		res, err := store.TakeUserChanges(ctx, a)
		var notes []string
		if err == nil && res.Commit != "" {
			notes = append(notes, fmt.Sprintf("the session begins with your changes, as commit %.10s", res.Commit))
		}
		if skipped := res.Note(); err == nil && skipped != "" {
			notes = append(notes, skipped)
		}
		return strings.Join(notes, "\n"), err
	}
	changed, err := store.UserChanges(ctx)
	changed = slices.DeleteFunc(changed, isOurs)
	if err != nil || len(changed) == 0 {
		return "", err
	}
	names := strings.Join(changed[:min(len(changed), maxNamed)], ", ")
	if len(changed) > maxNamed {
		names += ", …"
	}
	return fmt.Sprintf("%s of yours with changes that are not committed, which the session does not have: %s (a new "+
		"session takes them along with --with-changes)", ui.Count(len(changed), "file"), app.Line(names, 500)), nil
}

// isOurs reports whether a file of the repository is Everturn's own: a configuration, or what it keeps.
func isOurs(name string) bool {
	return path.Base(name) == config.DefaultPath || slices.Contains(strings.Split(name, "/"), app.StateDir)
}
