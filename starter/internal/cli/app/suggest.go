package app

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/everturn/everturn/internal/nearest"
)

// UsageError adds the usage of cmd to err, with which cobra refused a command line. An ExitError stays as it is.
func UsageError(cmd *cobra.Command, err error) error {
	var exit *ExitError
	if errors.As(err, &exit) {
		return err
	}
	return Usage("%w: use `%s` (see `%s --help`)", err, cmd.UseLine(), cmd.CommandPath())
}

// FlagError makes an error of the command line's flags understandable: it suggests the nearest flag for an unknown one,
// and names the value of a number that cannot be parsed.
func FlagError(cmd *cobra.Command, err error) error {
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if best := nearest.Name(unknown.GetSpecifiedName(), flagNames(cmd)); best != "" {
			hint = fmt.Sprintf("; did you mean --%s?", best)
		}
	}
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &invalid) && errors.As(err, &number) {
		err = fmt.Errorf("--%s is %q, which is not a whole number", invalid.GetFlag().Name, invalid.GetValue())
	}
	return Usage("%w%s (see `%s --help`)", err, hint, cmd.CommandPath())
}

// flagNames returns the names of a command's flags.
func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// OnlySubcommands is the Args function of a command that only has subcommands: it returns an error for every argument,
// because cobra passes it only arguments that name no subcommand. The error suggests the nearest subcommand.
func OnlySubcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	hint := ""
	if best := nearest.Name(args[0], names); best != "" {
		hint = fmt.Sprintf("; did you mean `%s %s`?", cmd.CommandPath(), best)
	}
	return Usage("unknown command %q%s (see `%s --help`)", args[0], hint, cmd.CommandPath())
}
