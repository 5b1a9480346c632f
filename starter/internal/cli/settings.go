package cli

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

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
				return usage("writing agent.toml: %w (an existing file is never overwritten)", err)
			}
			defer f.Close()
			if _, err := f.WriteString(config.Example()); err != nil {
				return fmt.Errorf("writing agent.toml: %w", err)
			}
			a.note("wrote agent.toml")
			return f.Close()
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "write it to ./agent.toml")
	return cmd
}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show the configuration, or its schema", Args: onlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var origin bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in force, secrets hidden",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := a.load()
			if err != nil {
				return err
			}
			return loaded.Show(a.out, origin)
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "say of each value where it came from")
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of agent.toml",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, string(config.Schema()))
			return err
		},
	}
	cmd.AddCommand(show, schema)
	return cmd
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version := "(devel)"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			_, err := fmt.Fprintf(a.out, "everturn %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
