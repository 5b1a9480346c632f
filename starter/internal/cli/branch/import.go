package branch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// Import returns the command that imports a session.
func Import(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "import <file>",
		Short: `Import an exported session, without its grants`,
		Long: `Import an exported session; "-" reads standard input. The checksums of the file detect damage but
not forgery, so import lists grants and pending approvals but does not import them, and ends a running
turn. Allow the calls again when the session asks for them. The session is tainted: see policy.taint.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			var r io.Reader = a.In
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return app.Usage("opening the file to import: %w", err)
				}
				defer f.Close()
				r = f
			}
			j, err := app.OpenJournal(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			defer j.Close()
			imported, err := j.Import(cmd.Context(), r)
			if err != nil {
				return importError(cmd.Context(), err)
			}
			missing, err := missingCommits(cmd.Context(), loaded.Config, j, imported)
			if output == app.OutputJSON {
				return errors.Join(err, app.WriteJSON(a.Out, struct {
					client.Imported
					MissingCommits []string `json:"missing_commits,omitempty"`
				}{imported, missing}))
			}
			printImported(a.Out, imported)
			if len(missing) > 0 {
				fmt.Fprintf(a.Out, "missing: its files are those of commits that this machine does not have, and no remote: %s\n"+
					"  fetch them into the repository before the session continues\n", strings.Join(missing, " "))
			}
			return err
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// missingCommits returns the commits of an imported session's tree that neither this machine nor the remote has.
func missingCommits(ctx context.Context, cfg config.Config, j client.Journal, imported client.Imported) ([]string,
	error) {
	t := imported.Tree
	if t == nil || imported.Unchanged {
		return nil, nil
	}
	if cfg.Workspace.Mode != config.WorkspaceTree { // there is no repository to look in
		return []string{app.Line(t.Head, 64)}, nil
	}
	store, err := app.OpenStore(ctx, cfg, j)
	if err != nil {
		return nil, err
	}
	ids, err := store.Missing(ctx, cfg.Tenant, imported.Session.ID, *t)
	for i := range ids {
		ids[i] = app.Line(ids[i], 64)
	}
	return ids, err
}

// importError returns the error of an import. It adds that nothing was changed, unless the import may have been
// committed: the command was interrupted, or the journal became unavailable.
func importError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, client.ErrUnavailable) {
		return fmt.Errorf("importing: %w", err)
	}
	return app.JournalError(ctx, fmt.Errorf("importing: %w (nothing was changed)", err))
}

// printImported prints an imported session and the permissions that were not imported.
func printImported(w io.Writer, imported client.Imported) {
	s := imported.Session
	fmt.Fprintf(w, "session %s · %s · %s\n", app.Line(s.ID, 80), ui.Count(int(s.Head.Seq), "message"),
		ui.Count(s.Turns, "turn"))
	if imported.Unchanged {
		fmt.Fprintln(w, "unchanged: the journal already has this session")
		return
	}
	fmt.Fprintln(w, "tainted: anyone may have written this file; "+
		"calls that could change or send something need approval (policy.taint)")
	if len(imported.DroppedPermissions) == 0 {
		return
	}
	fmt.Fprintf(w, "not imported: %s; allow the calls again when the session asks for them\n",
		ui.Count(len(imported.DroppedPermissions), "permission"))
	for _, p := range imported.DroppedPermissions {
		fmt.Fprintf(w, "  %-4s  %s  %s\n", p.Scope, exactly(p.Tool), permittedArguments(p))
	}
}

// permittedArguments returns a line with the arguments for which a permission was granted.
func permittedArguments(p client.DroppedPermission) string {
	shown := exactly(p.Arguments)
	switch {
	case p.Scope == turn.GrantTool:
		return "any arguments"
	case p.Arguments == "":
		return "arguments with the hash " + exactly(p.ArgumentsHash)
	case p.ArgumentsBytes > int64(len(p.Arguments)):
		return fmt.Sprintf("%s (the first %d of %d bytes; hash %s)",
			shown, len(p.Arguments), p.ArgumentsBytes, exactly(p.ArgumentsHash))
	}
	return shown
}

// exactly returns the whole text in one line, with control and invisible characters written as escapes.
func exactly(s string) string { return strings.ReplaceAll(termsafe.Visible(s), "\n", `\n`) }
