package branch

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/internal/workspace"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// canvasMerge returns the command that merges a session's branch into another branch.
func canvasMerge(a *app.App) *cobra.Command {
	var into, commit, message string
	var squash, signOff bool
	cmd := &cobra.Command{
		Use:   "merge [session]",
		Short: "Merge what a session has changed into a branch",
		Long: `Merge what a session has changed into a branch, by default the one that is checked out. If the branch
is checked out, git updates its work tree too, and refuses to if that would overwrite changes of yours.
On a conflict nothing changes. The commit has your name, as git knows it. The session continues from the merged state.

Exit codes: 0 merged, 1 a conflict or another failure.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(c canvas) error {
				done, err := c.Merge(cmd.Context(), workspace.MergeInput{Action: workspace.Action{Session: c.session},
					Commit: commit, Into: into, Squash: squash, SignOff: signOff, Title: message})
				if err == nil {
					a.Note("%s", done)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "the `branch` to merge into")
	cmd.Flags().StringVar(&commit, "commit", "", "merge only if this is the last `commit`, as canvas diff shows it")
	cmd.Flags().BoolVar(&squash, "squash", false, "make one commit of all changes")
	cmd.Flags().StringVarP(&message, "message", "m", "", "the commit's `message`")
	cmd.Flags().BoolVar(&signOff, "signoff", false, "add a line Signed-off-by with your name")
	return cmd
}

// canvasPublish returns the command that pushes a session's changes to a remote repository.
func canvasPublish(a *app.App) *cobra.Command {
	var commit, message string
	var squash bool
	cmd := &cobra.Command{
		Use:   "publish [session]",
		Short: "Push what a session has changed, and open a pull request",
		Long: `Push what a session has changed to a branch of the repository that workspace.publish.remote names, and
run the command workspace.publish.pull_request. Both are settings of agent.toml. A branch that has
a commit of somebody else is not replaced. The session and your repository stay as they are.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(c canvas) error {
				to, err := adapters.Publishing(c.cfg, a.Environ)
				if err != nil {
					return app.Usage("%v", err)
				}
				if to == nil {
					return app.Usage("there is no repository to push to: set remote under [workspace.publish] in agent.toml")
				}
				done, err := c.Store.Publish(cmd.Context(), workspace.PublishInput{Publishing: *to, Commit: commit, Squash: squash,
					Action: workspace.Action{Tenant: c.Tenant, Session: c.session, Tool: "everturn canvas publish"},
					Title:  cmp.Or(message, "Changes of "+c.session)})
				if err == nil {
					fmt.Fprintln(a.Out, termsafe.Visible(done.String()))
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&commit, "commit", "", "publish only if this is the last `commit`, as canvas diff shows it")
	cmd.Flags().BoolVar(&squash, "squash", false, "push one commit of all changes")
	cmd.Flags().StringVarP(&message, "message", "m", "",
		"the first `line` of that commit's message, and the title of the pull request")
	return cmd
}

// canvasList returns the command that lists the canvases.
func canvasList(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the canvases, and when unused ones are removed",
		Long: `List the canvases of all sessions, the last used first: the number of commits that are not merged, and
when a worker removes the directory and the canvas if nothing uses them until then (workspace.keep).
A canvas with commits that are nowhere else stays, as does one with changes that were taken back.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return openCanvases(cmd.Context(), a, func(c canvas) error {
				all, err := c.Store.List(cmd.Context(), c.Tenant, c.cfg.Workspace.Keep)
				if err != nil {
					return err
				}
				return app.PrintList(a.Out, output, all, func() error {
					day := func(at time.Time) string {
						if at.IsZero() {
							return "-"
						}
						return at.Local().Format(time.DateOnly)
					}
					rows := make([][]string, len(all))
					for i, one := range all {
						rows[i] = []string{app.Line(one.Session, 60), strconv.Itoa(one.Unmerged), day(one.UsedAt), day(one.TreeGoesAt),
							day(one.GoesAt)}
					}
					return a.Table([]string{"SESSION", "UNMERGED", "USED", "TREE GOES", "CANVAS GOES"}, rows)
				})
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// canvasDrop returns the command that deletes a session's canvas.
func canvasDrop(a *app.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "drop <session>",
		Short: "Delete the branch and the tree of a session",
		Long: `Delete the branch and the tree of a session. If commits are merged nowhere, the command names them and
asks first. They stay in the store of the canvases for the time of workspace.keep.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteSessions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return canvasOf(cmd.Context(), a, args, func(c canvas) error {
				if agreed, err := agreesToDrop(cmd.Context(), a, c, yes); err != nil || !agreed {
					return err
				}
				s, err := c.Store.Drop(cmd.Context(), c.Tenant, c.session)
				if err == nil {
					a.Note("deleted branch %s, whose last commit was %.10s, and its directory", s.Branch, s.Head)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// agreesToDrop reports whether a canvas may be dropped: it has nothing unmerged, or the user agrees to lose it.
func agreesToDrop(ctx context.Context, a *app.App, c canvas, yes bool) (bool, error) {
	shown, unmerged, err := c.Store.Unmerged(ctx, c.Tenant, c.session)
	if err != nil || unmerged == 0 || yes {
		return err == nil, err
	}
	var names []string
	for _, f := range shown.Files[:min(len(shown.Files), 10)] {
		names = append(names, app.Line(f.Path, 100))
	}
	if more := len(shown.Files) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	lost := fmt.Sprintf("%s of %s merged nowhere: %s", ui.Count(unmerged, "commit"), app.Line(c.session, 100),
		strings.Join(names, ", "))
	if !a.OnTerminal() {
		return false, app.Usage("%s. Merge or publish them first, or drop them with --yes", lost)
	}
	a.Note("%s", lost)
	agreed, err := a.Agrees(ctx, "drop them?")
	if err == nil && !agreed {
		a.Note("nothing is dropped")
	}
	return agreed, err
}
