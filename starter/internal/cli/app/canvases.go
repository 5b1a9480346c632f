package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/internal/loopback"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Canvases does for the commands and for the chat what a user does with the canvases of sessions.
type Canvases struct {
	Store   *workspace.Store
	Journal client.Journal
	Tenant  string
}

// OpenStore opens the store of the canvases. The journal knows which machine has a canvas; without one, this machine
// has all.
func OpenStore(ctx context.Context, cfg config.Config, j client.Journal) (*workspace.Store, error) {
	var trees func() adapters.Trees
	if j != nil {
		trees = func() adapters.Trees { return j }
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown machine"
	}
	store, err := workspace.Open(ctx, adapters.TreeOptions(cfg, fmt.Sprintf("%d@%s", os.Getpid(), host), trees))
	if err != nil {
		return nil, Usage("%v", err)
	}
	return store, nil
}

// HasCanvases reports whether sessions have canvases on this machine.
func (t *TurnClient) HasCanvases() bool {
	return t.Cfg.Workspace.Mode == config.WorkspaceTree && loopback.Address(t.Cfg.Temporal.Address)
}

// Canvases opens the canvases of the sessions in t.Journal: see HasCanvases.
func (t *TurnClient) Canvases(ctx context.Context) (Canvases, error) {
	store, err := OpenStore(ctx, t.Cfg, t.Journal)
	return Canvases{Store: store, Journal: t.Journal, Tenant: t.Cfg.Tenant}, err
}

// Folders returns a function that returns the folder in which the file tools act for a session. The function is nil if
// the worker runs on another machine, which has other files, or if the folders cannot be found.
func (a *App) Folders(ctx context.Context, cfg config.Config) func(session string) string {
	address, _, err := temporalconn.FromConfig(cfg.Temporal, a.Environ).Resolved()
	switch {
	case err != nil || !loopback.Address(address):
		return nil
	case cfg.Workspace.Mode == config.WorkspaceFolder:
		return func(string) string { return cfg.Runtime.Workspace }
	}
	store, err := OpenStore(ctx, cfg, nil)
	if err != nil {
		return nil
	}
	return func(session string) string { return store.Path(cfg.Tenant, session) }
}

// Explained turns workspace.ErrNoCanvas, for a session, into an error for the user. It returns other errors as they are.
func (c Canvases) Explained(session string, err error) error {
	if errors.Is(err, workspace.ErrNoCanvas) {
		return Usage("session %s has changed nothing in the repository: there is no branch %s", Line(session, 100),
			workspace.Branch(c.Tenant, session))
	}
	return err
}

// Show returns the commits and the changed files of a session.
func (c Canvases) Show(ctx context.Context, session string) (workspace.Summary, error) {
	shown, err := c.Store.Show(ctx, c.Tenant, session)
	return shown, c.Explained(session, err)
}

// Diff returns what a session has changed as a unified diff without control characters other than tabs, and the
// session's last commit. If file is not empty, the diff has only that file.
func (c Canvases) Diff(ctx context.Context, session, file string) (text, commit string, err error) {
	text, commit, err = c.Store.Diff(ctx, c.Tenant, session, file)
	// A control character may be what the change is about: a carriage return ends a line of a program.
	parts := strings.Split(text, "\t")
	for i, part := range parts {
		parts[i] = termsafe.Visible(part)
	}
	return strings.Join(parts, "\t"), commit, c.Explained(session, err)
}

// Current returns the branch into which Merge merges by default: the one that is checked out. It is "" if there is none.
func (c Canvases) Current(ctx context.Context) string { return c.Store.Current(ctx) }

// Merge merges a session's changes for the user, and returns a line that says so. The input's Into and Title have
// defaults.
func (c Canvases) Merge(ctx context.Context, in workspace.MergeInput) (done string, err error) {
	in.Tenant, in.Tool, in.ByUser = c.Tenant, "everturn canvas merge", true
	in.Title = cmp.Or(in.Title, "Merge "+workspace.Branch(c.Tenant, in.Session))
	if in.Into = cmp.Or(in.Into, c.Current(ctx)); in.Into == "" {
		return "", Usage("no branch is checked out: name one with --into")
	}
	id, err := c.Store.Merge(ctx, in)
	var conflict *workspace.ConflictError
	switch {
	case errors.As(err, &conflict):
		return "", fmt.Errorf("%w: ask the session to change its version", err)
	case err != nil:
		return "", c.Explained(in.Session, err)
	}
	return fmt.Sprintf("merged into %s as commit %.10s", Line(in.Into, 100), id), nil
}

// Undo takes back the last change of a session's files, records it for the session's model, and returns a line for the
// user.
func (c Canvases) Undo(ctx context.Context, session string) (done string, err error) {
	undone, err := c.Store.Undo(ctx, c.Tenant, session)
	if err != nil {
		return "", c.Explained(session, err)
	}
	done = fmt.Sprintf("took back %q, which was commit %.10s", undone.Subject, undone.ID)
	files, err := c.Store.ChangedBy(ctx, undone.ID)
	if err == nil {
		err = c.Journal.TakeBack(ctx, session, client.TakenBack{Commit: undone.ID, Subject: undone.Subject,
			Call: undone.Call, Files: files})
	}
	if err != nil && !errors.Is(err, client.ErrNotFound) { // a session without messages has no model to tell
		return "", fmt.Errorf("%s, but the model is not told: %w", done, err)
	}
	return done, nil
}
