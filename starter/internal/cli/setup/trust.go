package setup

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/trust"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Trust returns the command that trusts folders.
func Trust(a *app.App) *cobra.Command {
	var list, show, remove bool
	var output string
	cmd := &cobra.Command{
		Use:   "trust [folder]",
		Short: "Trust a folder: use its agent.toml and AGENTS.md",
		Long: `Trust a folder (by default the working folder) as it is now: its agent.toml is used when it is found,
with the programs in the folder that it runs, and its AGENTS.md instructs the model. Without trust,
commands use nothing of an agent.toml that they find, and on a terminal they ask. If agent.toml or a
program that it names changes, they ask again.

A file that --config names needs no trust, and neither does a worker, because the operator who starts
it chooses its file. The global flag --trust-once trusts the working folder for one command.`,
		Example: `  everturn trust --show
  everturn trust
  everturn trust --remove ~/src/project`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			folder := "."
			if len(args) > 0 {
				folder = args[0]
			}
			switch {
			case list:
				return listTrusted(a, output)
			case remove:
				return removeTrust(a, folder)
			}
			return trustFolder(a, folder, show)
		},
	}
	cmd.Flags().BoolVar(&show, "show", false, "only show what the folder would do, or what has changed in it")
	cmd.Flags().BoolVar(&list, "list", false, "list the folders that you trust")
	cmd.Flags().BoolVar(&remove, "remove", false, "trust the folder no longer")
	cmd.MarkFlagsMutuallyExclusive("show", "list", "remove")
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// trustFolder prints what a folder would do, unless the user trusts it already. Then it records the user's trust,
// unless onlyShow is true.
func trustFolder(a *app.App, folder string, onlyShow bool) error {
	f, err := trust.Look(folder, a.Environ)
	if err != nil {
		return app.AsUsage(err)
	}
	j, err := trust.Open(a.Environ)
	if err != nil {
		return app.AsUsage(err)
	}
	record, err := j.Find(f.Root)
	if err != nil {
		return app.AsUsage(err)
	}
	trusted, err := j.Trusts(f)
	if err != nil {
		return app.AsUsage(err)
	}
	if !trusted {
		text, err := app.DescribeFolder(f, record)
		if err != nil {
			return app.AsUsage(err)
		}
		fmt.Fprintln(a.Out, text)
	}
	switch {
	case trusted:
		a.Note("you trust %s as it is", f.Root)
		return nil
	case onlyShow:
		return nil
	}
	if err := a.Trust(f); err != nil {
		return err
	}
	a.Note("you trust %s now", f.Root)
	return nil
}

// trustedFolder is a row of trust --list.
type trustedFolder struct {
	Folder string    `json:"folder"`
	State  string    `json:"state"` // trusted, changed or missing
	At     time.Time `json:"trusted_at"`
}

// listTrusted lists the folders that the user trusts, and whether they have changed since.
func listTrusted(a *app.App, output string) error {
	j, err := trust.Open(a.Environ)
	if err != nil {
		return app.AsUsage(err)
	}
	records, err := j.List()
	if err != nil {
		return app.AsUsage(err)
	}
	rows := make([]trustedFolder, len(records))
	for i, r := range records {
		rows[i] = trustedFolder{r.Root, "changed", r.At}
		f, err := trust.Look(r.Root, a.Environ)
		if f.Root == "" {
			rows[i].State = "missing"
		} else if trusted, _ := j.Trusts(f); err == nil && trusted { // what cannot be read has changed
			rows[i].State = "trusted"
		}
	}
	return app.PrintList(a.Out, output, rows, func() error {
		var table [][]string
		for _, r := range rows {
			table = append(table, []string{app.Line(r.Folder, 200), r.State, r.At.Local().Format(time.DateTime)})
		}
		return a.Table([]string{"FOLDER", "STATE", "SINCE"}, table)
	})
}

// removeTrust removes the user's trust in a folder, which may no longer exist.
func removeTrust(a *app.App, folder string) error {
	root, err := filepath.Abs(folder)
	if err != nil {
		return app.AsUsage(err)
	}
	if real, err := filepath.EvalSymlinks(root); err == nil { // fails if the folder no longer exists
		root = real
	}
	j, err := trust.Open(a.Environ)
	if err != nil {
		return app.AsUsage(err)
	}
	removed, err := j.Remove(root)
	switch {
	case err != nil:
		return app.AsUsage(err)
	case !removed:
		return app.Usage("you do not trust %s: `everturn trust --list` lists the folders that you trust", root)
	}
	a.Note("you trust %s no longer", root)
	return nil
}
