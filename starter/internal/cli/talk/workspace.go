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
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
)

// noteChanges prints what a session has changed, after a turn that has changed files.
func noteChanges(ctx context.Context, t *app.TurnClient, session string) {
	if !t.HasCanvases() {
		return
	}
	canvases, err := t.Canvases(ctx)
	if err != nil {
		return
	}
	if shown, err := canvases.Show(ctx, session); err == nil && len(shown.Files) > 0 {
		t.App.Aside("%s · `everturn canvas diff %s`", ui.ChangedFiles(shown.Files), app.Quoted(session))
	}
}

// maxNamed bounds how many files a note names.
const maxNamed = 5

// begin begins the tree of a new session with the user's files that are not committed, with --with-changes. note is
// for the user: it names those files if the tree is going to lack them.
func (f sessionFlags) begin(ctx context.Context, t *app.TurnClient, session string) (note string, err error) {
	if !t.HasCanvases() {
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
	canvases, err := t.Canvases(ctx)
	if err != nil {
		return "", err
	}
	if f.changes {
		a := workspace.Action{Tenant: t.Cfg.Tenant, Session: session}
		res, err := canvases.Store.TakeUserChanges(ctx, a)
		var notes []string
		if err == nil && res.Commit != "" {
			notes = append(notes, fmt.Sprintf("the session begins with your changes, as commit %.10s", res.Commit))
		}
		if skipped := res.Note(); err == nil && skipped != "" {
			notes = append(notes, skipped)
		}
		return strings.Join(notes, "\n"), err
	}
	changed, err := canvases.Store.UserChanges(ctx)
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
