package setup

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/trust"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Init returns the command that prints or writes an example of agent.toml.
func Init(a *app.App) *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Print a complete, commented agent.toml",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !write {
				_, err := fmt.Fprint(a.Out, config.Example())
				return err
			}
			f, err := os.OpenFile("agent.toml", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
			if err != nil {
				return app.Usage("writing agent.toml: %w (existing files are not overwritten)", err)
			}
			defer f.Close()
			if _, err := f.WriteString(config.Example()); err != nil {
				return fmt.Errorf("writing agent.toml: %w", err)
			}
			a.Note("wrote agent.toml")
			if err := f.Close(); err != nil {
				return fmt.Errorf("writing agent.toml: %w", err)
			}
			if err := trustOwn(a); err != nil {
				a.Note("it is not trusted yet: %v", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "write it to ./agent.toml instead of standard output")
	return cmd
}

// trustOwn records the user's trust in the folder whose agent.toml this program has just written. If the folder also
// has instructions for the model, which come from elsewhere, it records nothing, and the next command asks the user.
func trustOwn(a *app.App) error {
	f, err := trust.Look(".", a.Environ)
	if err != nil {
		return err
	}
	if len(f.Instructions()) > 0 {
		return nil
	}
	return a.Trust(f)
}
