package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) importCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import <file>",
		Short: `Read a session that was exported ("-" for standard input), without its permissions`,
		Long: `Read a session that was exported; "-" reads standard input. The file's checksums find damage, not forgery, so import
lists permissions and leaves them out: "always allow", and approvals of a turn that was running, which it ends.
Allow the calls again when the session asks for them. The session is tainted: see policy.taint.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			var r io.Reader = a.in
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usage("opening the file to import: %w", err)
				}
				defer f.Close()
				r = f
			}
			store, err := openJournal(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			defer store.Close()
			imported, err := store.Import(cmd.Context(), r)
			if err != nil {
				return fmt.Errorf("importing (nothing was changed): %w", err)
			}
			if asJSON {
				return writeJSON(a.out, imported)
			}
			printImported(a.out, imported)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printImported(w io.Writer, imported journal.Imported) {
	s := imported.Session
	fmt.Fprintf(w, "session %s · %s · %s\n", line(s.ID, 80), plural(int(s.Head.Seq), "message"), plural(s.Turns, "turn"))
	if imported.Unchanged {
		fmt.Fprintln(w, "known: the journal has this session already; nothing was changed")
		return
	}
	fmt.Fprintln(w, "tainted: anyone may have written this file; "+
		"calls that could change or send something need approval (policy.taint)")
	if len(imported.DroppedPermissions) == 0 {
		return
	}
	fmt.Fprintf(w, "not imported: %s; allow the calls again when the session asks for them\n",
		plural(len(imported.DroppedPermissions), "permission"))
	for _, p := range imported.DroppedPermissions {
		fmt.Fprintf(w, "  %-4s  %s  %s\n", p.Scope, exactly(p.Tool), withheldArguments(p))
	}
}

// withheldArguments returns all arguments of a permission in one line.
func withheldArguments(p journal.DroppedPermission) string {
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

// exactly returns all of a text in one line.
func exactly(s string) string { return strings.ReplaceAll(terminal.Visible(s), "\n", `\n`) }
