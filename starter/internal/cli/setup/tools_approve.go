package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// approveToolsFlags are the flags of tools approve.
type approveToolsFlags struct {
	all, yes bool
	hash     string
}

// toolsApprove returns the command that approves quarantined tools.
func toolsApprove(a *app.App) *cobra.Command {
	var f approveToolsFlags
	cmd := &cobra.Command{
		Use:   "approve <server> [tool...]",
		Short: "Approve quarantined tools, so that turns may call them",
		Long: `Approve the current versions of quarantined tools, so that turns may call them. On a terminal, the
command shows the changes and you confirm them; without a terminal, look at everturn tools diff and
use --yes. The command approves exactly what it has shown: if a tool changes in the meantime,
nothing is approved.

The approval takes effect for turns that begin later, and is recorded with your name.

Exit codes: 0 tools were approved or none is quarantined, 1 a tool is not the version that was shown
or that --hash names, 3 the command line does not match the quarantined tools.`,
		Example: `  everturn tools approve github mcp/github/create_issue
  everturn tools approve github create_issue --hash 9f86d081884c --yes
  everturn tools approve github --all --yes`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeQuarantined(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				return approveTools(cmd.Context(), a, j, args[0], args[1:], f)
			})
		},
	}
	cmd.Flags().BoolVar(&f.all, "all", false, "approve every quarantined tool of the server")
	cmd.Flags().StringVar(&f.hash, "hash", "", "refuse unless the tool has this `hash`, of which the first digits suffice")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not show the tools or ask for confirmation")
	return cmd
}

// check returns an error for flags that exclude each other or the arguments. args are a server and its tools.
func (f approveToolsFlags) check(args []string) error {
	switch {
	case f.all && len(args) > 1:
		return app.Usage("--all approves every quarantined tool of %s: remove %s", args[0], strings.Join(args[1:], " "))
	case f.hash != "" && (f.all || len(args) > 2):
		return app.Usage("--hash identifies the version of one tool: use one command for each tool")
	case f.hash != "" && len(f.hash) < ui.HashDigits:
		return app.Usage("--hash %q is too short: use at least %d digits", f.hash, ui.HashDigits)
	}
	return nil
}

// approveTools approves the named tools of a server or, without names, the only quarantined one, or all with --all. It
// approves exactly the versions that it has shown.
func approveTools(ctx context.Context, a *app.App, j client.Journal, server string,
	names []string, f approveToolsFlags) error {
	all, err := quarantined(ctx, j, server)
	if err != nil {
		return err
	}
	tools, err := selectTools(all, server, names, f.all, confirmFlag(a))
	if err != nil {
		return err
	}
	if len(tools) == 0 {
		a.Note("no tool of %s is quarantined", app.Line(server, 60))
		return nil
	}
	if f.hash != "" && !strings.HasPrefix(tools[0].Now.Hash, f.hash) {
		return hashMismatch(tools[0], f.hash, confirmFlag(a))
	}
	agreed, err := confirmTools(ctx, a, tools, f)
	if err != nil {
		return err
	}
	if !agreed {
		a.Note("nothing was approved")
		return nil
	}
	in := client.ApproveToolsInput{Server: server, Hashes: map[string]string{}, By: app.UserName(), At: time.Now()}
	for _, q := range tools {
		in.Tools = append(in.Tools, q.Tool)
		in.Hashes[q.Tool] = q.Now.Hash
	}
	approved, err := j.ApproveTools(ctx, in)
	if err != nil {
		return approveToolsError(server, err)
	}
	for _, q := range approved {
		a.Note("approved %s (hash %s)", q.Now.ID, ui.ShortHash(q.Now.Hash))
	}
	a.Aside("this takes effect for turns that begin from now on; running turns keep their tools")
	return nil
}

// selectTools returns those of the server's quarantined tools that names lists, by their IDs or by the server's own
// names, each once. Without names it returns the only tool, or all of them if all is true, or none if there are none.
// more is appended to the commands in an error.
func selectTools(tools []quarantinedTool, server string,
	names []string, all bool, more string) ([]quarantinedTool, error) {
	if len(names) == 0 {
		if len(tools) > 1 && !all {
			return nil, app.Usage("%d tools of %s are quarantined: name the tools to approve, or use --all\n%s", len(tools),
				app.Line(server, 60), approveCommands(tools, more))
		}
		return tools, nil
	}
	var selected []quarantinedTool
	for _, name := range names {
		i := slices.IndexFunc(tools, func(q quarantinedTool) bool {
			return q.Tool == name ||
				q.Tool == "mcp/"+server+"/"+name
		})
		if i < 0 {
			return nil, app.Usage("%s is not quarantined; `everturn tools diff %s` shows the quarantined tools",
				app.Line(name, 80),
				app.Quoted(server))
		}
		if !slices.ContainsFunc(selected, func(q quarantinedTool) bool { return q.Tool == tools[i].Tool }) {
			selected = append(selected, tools[i])
		}
	}
	return selected, nil
}

// confirmTools shows the tools on the terminal and reports whether the user confirms them. With --yes it returns true
// at once; without a terminal it returns an error.
func confirmTools(ctx context.Context, a *app.App, tools []quarantinedTool, f approveToolsFlags) (bool, error) {
	switch {
	case f.yes:
		return true, nil
	case !a.OnTerminal():
		return false, app.Usage(
			"nothing was approved: there is no terminal to confirm on. Look at `everturn tools diff`, then " +
				"use --yes")
	}
	var b strings.Builder
	for _, q := range tools {
		b.WriteString(q.show(false) + "\n")
	}
	app.DiscardInput(a.In) // input that was typed before the tools were shown
	seen, err := a.Seen(ctx, strings.TrimRight(b.String(), "\n"))
	if err != nil || !seen {
		return false, err
	}
	return a.Agrees(ctx, fmt.Sprintf("approve %s as shown?", ui.Count(len(tools), "tool")))
}

// hashMismatch returns the error for a tool whose current hash does not begin with hash, the value of --hash. more is
// appended to the command that approves the tool.
func hashMismatch(q quarantinedTool, hash, more string) error {
	return &app.ExitError{Code: app.ExitFailed,
		Cause: fmt.Errorf("nothing was approved: --hash %s is not the current hash of "+
			"%s; look at it with `everturn tools diff %s`, then approve it with\n%s",
			app.Line(hash, 20), app.Line(termsafe.Visible(q.Tool), 120), app.Quoted(q.Server),
			approveCommands([]quarantinedTool{q}, more))}
}

// approveToolsError returns the error of an approval that the journal did not record, with what the user can do.
func approveToolsError(server string, err error) error {
	look := fmt.Sprintf("look again with `everturn tools diff %s`", app.Quoted(server))
	switch {
	case errors.Is(err, client.ErrConflict):
		return &app.ExitError{Code: app.ExitFailed,
			Cause: fmt.Errorf("nothing was approved: a tool has changed again; %s: %w", look,
				err)}
	case errors.Is(err, client.ErrNotFound):
		return app.Usage("nothing was approved: a tool is no longer quarantined; %s: %w", look, err)
	}
	return fmt.Errorf("approving tools: %w", err)
}
