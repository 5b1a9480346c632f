package branch

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Canvas returns the commands for the branches of a git repository on which sessions change files.
func Canvas(a *app.App) *cobra.Command {
	cmd := app.Parent("canvas", "Show, merge, publish or drop what a session has changed in a git repository",
		canvasList(a), canvasShow(a), canvasPath(a), canvasDiff(a), canvasLog(a), canvasUndo(a), canvasMerge(a),
		canvasPublish(a), canvasDrop(a))
	cmd.Long = `Show, merge, publish or drop what a session has changed in a git repository. With mode = "tree" under
[workspace] in agent.toml, each session has a directory and a branch of its own, with one commit for
each call that changes files, and your repository stays as it is until you merge.`
	cmd.Example = `  everturn canvas diff research-1
  everturn canvas merge research-1 --squash -m "Add a page about forks"`
	return cmd
}

// canvas is what the commands for a session's canvas have open.
type canvas struct {
	app.Canvases
	cfg     config.Config
	session string
}

// openCanvases calls f with the repository of the canvases.
func openCanvases(ctx context.Context, a *app.App, f func(c canvas) error) error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	cfg := loaded.Config
	if cfg.Workspace.Mode != config.WorkspaceTree {
		return app.Usage("there are no canvases: set mode = \"tree\" under [workspace] in agent.toml")
	}
	j, err := app.ReadJournal(ctx, cfg)
	if err != nil {
		return err
	}
	defer j.Close()
	store, err := app.OpenStore(ctx, cfg, j)
	if err != nil {
		return err
	}
	return f(canvas{Canvases: app.Canvases{Store: store, Journal: j, Tenant: cfg.Tenant}, cfg: cfg})
}

// canvasOf calls f with a canvas: that of the session in args, or of the last session if args is empty.
func canvasOf(ctx context.Context, a *app.App, args []string, f func(c canvas) error) error {
	return openCanvases(ctx, a, func(c canvas) (err error) {
		if c.session, err = app.SessionArg(ctx, c.Journal, args); err != nil {
			return err
		}
		return c.Explained(c.session, f(c))
	})
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
			return canvasOf(cmd.Context(), a, args, func(c canvas) error {
				s, err := c.Show(cmd.Context(), c.session)
				if err != nil {
					return err
				}
				if output == app.OutputJSON {
					return app.WriteJSON(a.Out, s)
				}
				fmt.Fprintf(a.Out, "branch %s · %s since %.10s\n", s.Branch, ui.Count(len(s.Commits), "commit"),
					cmp.Or(s.Base, "the beginning"))
				fmt.Fprintf(a.Out, "tree   %s\n", termsafe.Visible(s.Tree))
				if s.Setup != nil && s.Setup.Problem != "" {
					a.Note("the setup %s failed: %s (-o json has its output)", app.Quoted(s.Setup.Command),
						app.Line(s.Setup.Problem, 200))
				}
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

// canvasPath returns the command that prints the directory of a session's tree.
func canvasPath(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:               "path [session]",
		Short:             "Print the directory of a session's files",
		Example:           `  cd "$(everturn canvas path research-1)" && go test ./...`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(c canvas) error {
				s, err := c.Show(cmd.Context(), c.session)
				if err == nil {
					fmt.Fprintln(a.Out, s.Tree)
				}
				return err
			})
		},
	}
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
			return canvasOf(cmd.Context(), a, args, func(c canvas) error {
				text, head, err := c.Diff(cmd.Context(), c.session, file)
				if err != nil {
					return err
				}
				fmt.Fprint(a.Out, text)
				a.Note("merge exactly this with\n  everturn canvas merge %s --commit %.10s", app.Quoted(c.session), head)
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
			return canvasOf(cmd.Context(), a, args, func(c canvas) error {
				s, err := c.Show(cmd.Context(), c.session)
				if err != nil {
					return err
				}
				return app.PrintList(a.Out, output, s.Commits, func() error {
					rows := make([][]string, len(s.Commits))
					for i, made := range s.Commits {
						rows[i] = []string{made.ID[:min(10, len(made.ID))], made.At.Local().Format(time.DateTime),
							app.Line(made.Call, 80),
							app.Line(made.Subject, 100)}
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
The commit itself is kept, and the conversation stays as it is. The model is told with the next message.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(c canvas) error {
				done, err := c.Undo(cmd.Context(), c.session)
				if err == nil {
					a.Note("%s", app.Line(done, 300))
				}
				return err
			})
		},
	}
}
