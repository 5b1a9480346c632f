package branch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Canvas returns the commands for the branches of a git repository on which sessions change files.
func Canvas(a *app.App) *cobra.Command {
	cmd := app.Parent("canvas", "Show, merge or drop what a session has changed in a git repository",
		canvasShow(a), canvasDiff(a), canvasLog(a), canvasUndo(a), canvasMerge(a), canvasDrop(a))
	cmd.Long = `Show, merge or drop what a session has changed in a git repository. With mode = "tree" under
[workspace] in agent.toml, each session has a directory and a branch of its own, with one commit for
each call that changes files, and your repository stays as it is until you merge.`
	cmd.Example = `  everturn canvas diff research-1
  everturn canvas merge research-1 --squash -m "Add a page about forks"`
	return cmd
}

// canvasOf calls f with the repository of the canvases, and the tenant and session that select one: the session in
// args, or the last session if args is empty.
func canvasOf(ctx context.Context, a *app.App, args []string,
	f func(store *workspace.Store, tenant, session string) error) error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	cfg := loaded.Config
	if cfg.Workspace.Mode != config.WorkspaceTree {
		return app.Usage("there are no canvases: set mode = \"tree\" under [workspace] in agent.toml")
	}
	store, err := workspace.Open(ctx, workspace.Options{Repo: cfg.Runtime.Workspace, State: cfg.StateDir()})
	if err != nil {
		return app.Usage("%v", err)
	}
	j, err := app.ReadJournal(ctx, loaded.Config)
	if err != nil {
		return err
	}
	defer j.Close()
	session, err := app.SessionArg(ctx, j, args)
	if err != nil {
		return err
	}
	err = f(store, loaded.Config.Tenant, session)
	if errors.Is(err, workspace.ErrNoCanvas) {
		return app.Usage("session %s has changed nothing in the repository: there is no branch %s", app.Line(session, 100),
			workspace.Branch(loaded.Config.Tenant, session))
	}
	return err
}

// canvasShow returns the command that shows a session's branch and the files that it changes.
func canvasShow(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:               "show [session]",
		Short:             "Show the branch of a session and the files that it changes",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(store *workspace.Store, tenant, session string) error {
				s, err := store.Show(cmd.Context(), tenant, session)
				if err != nil {
					return err
				}
				if output == app.OutputJSON {
					return app.WriteJSON(a.Out, s)
				}
				fmt.Fprintf(a.Out, "branch %s · %s since %.10s\n", s.Branch, ui.Count(len(s.Commits), "commit"),
					cmp.Or(s.Base, "the beginning"))
				rows := make([][]string, len(s.Files))
				for i, f := range s.Files {
					rows[i] = []string{"+" + strconv.Itoa(f.Added), "-" + strconv.Itoa(f.Removed), app.Line(f.Path, 200)}
					if f.Binary {
						rows[i][0], rows[i][1] = "binary", ""
					}
				}
				return a.Table([]string{"ADDED", "REMOVED", "FILE"}, rows)
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// canvasDiff returns the command that shows a session's changes as a diff.
func canvasDiff(a *app.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:               "diff [session]",
		Short:             "Show what a session has changed, as a unified diff",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(store *workspace.Store, tenant, session string) error {
				text, head, err := store.Diff(cmd.Context(), tenant, session, file)
				if err != nil {
					return err
				}
				// A control character may be what the change is about: a carriage return ends a line of a program.
				parts := strings.Split(text, "\t")
				for i, part := range parts {
					parts[i] = termsafe.Visible(part)
				}
				fmt.Fprint(a.Out, strings.Join(parts, "\t"))
				a.Note("merge exactly this with\n  everturn canvas merge %s --commit %.10s", app.Quoted(session), head)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "only this `file`")
	return cmd
}

// canvasLog returns the command that lists a session's commits.
func canvasLog(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:               "log [session]",
		Short:             "List a session's commits with the calls that made them, the newest first",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(store *workspace.Store, tenant, session string) error {
				s, err := store.Show(cmd.Context(), tenant, session)
				if err != nil {
					return err
				}
				return app.PrintList(a.Out, output, s.Commits, func() error {
					rows := make([][]string, len(s.Commits))
					for i, c := range s.Commits {
						rows[i] = []string{c.ID[:min(10, len(c.ID))], c.At.Local().Format(time.DateTime), app.Line(c.Call, 80),
							app.Line(c.Subject, 100)}
					}
					return a.Table([]string{"COMMIT", "TIME", "TURN/CALL", "CHANGE"}, rows)
				})
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// canvasUndo returns the command that takes back a session's last commit.
func canvasUndo(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "undo [session]",
		Short: "Take back the last change of a session",
		Long: `Take back the last commit of a session: its files are again as they were before the call that made it.
The commit itself is kept, and the conversation stays as it is: tell the session what to do instead.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(store *workspace.Store, tenant, session string) error {
				c, err := store.Undo(cmd.Context(), tenant, session)
				if err == nil {
					a.Note("took back %s, which was commit %.10s", app.Quoted(c.Subject), c.ID)
				}
				return err
			})
		},
	}
}

// canvasMerge returns the command that merges a session's branch into another branch.
func canvasMerge(a *app.App) *cobra.Command {
	var into, commit, message string
	var squash bool
	cmd := &cobra.Command{
		Use:   "merge [session]",
		Short: "Merge what a session has changed into a branch",
		Long: `Merge what a session has changed into a branch, by default the one that is checked out. If the branch
is checked out, git updates its work tree too, and refuses to if that would overwrite changes of yours.
On a conflict nothing changes. The session continues from the merged state.

Exit codes: 0 merged, 1 a conflict or another failure.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(store *workspace.Store, tenant, session string) error {
				into = cmp.Or(into, store.Current(cmd.Context()))
				if into == "" {
					return app.Usage("no branch is checked out: name one with --into")
				}
				id, err := store.Merge(cmd.Context(), workspace.MergeInput{
					Action: workspace.Action{Tenant: tenant, Session: session, Tool: "everturn canvas merge"},
					Commit: commit, Into: into, Squash: squash,
					Title: cmp.Or(message, "Merge "+workspace.Branch(tenant, session)), InWorkTree: true,
				})
				var conflict *workspace.ConflictError
				if errors.As(err, &conflict) {
					return fmt.Errorf("%w: ask the session to change its version", err)
				}
				if err == nil {
					a.Note("merged into %s as commit %.10s", app.Line(into, 100), id)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "the `branch` to merge into")
	cmd.Flags().StringVar(&commit, "commit", "", "merge only if this is the last `commit`, as canvas diff shows it")
	cmd.Flags().BoolVar(&squash, "squash", false, "make one commit of all changes")
	cmd.Flags().StringVarP(&message, "message", "m", "", "the first `line` of the commit's message")
	return cmd
}

// canvasDrop returns the command that deletes a session's branch.
func canvasDrop(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:               "drop <session>",
		Short:             "Delete the branch of a session",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(store *workspace.Store, tenant, session string) error {
				s, err := store.Drop(cmd.Context(), tenant, session)
				if err == nil {
					a.Note("deleted branch %s, whose last commit was %.10s, and its directory", s.Branch, s.Head)
				}
				return err
			})
		},
	}
}
