package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
)

func (a *app) initCommand() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Print a complete, commented agent.toml",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !write {
				_, err := fmt.Fprint(a.out, config.Example())
				return err
			}
			f, err := os.OpenFile("agent.toml", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
			if err != nil {
				return usage("writing agent.toml: %w (existing files are not overwritten)", err)
			}
			defer f.Close()
			if _, err := f.WriteString(config.Example()); err != nil {
				return fmt.Errorf("writing agent.toml: %w", err)
			}
			a.note("wrote agent.toml")
			return f.Close()
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "write it to ./agent.toml instead of standard output")
	return cmd
}
