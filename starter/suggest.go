package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError is what a flag that cannot be read ends with.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if best := nearest(unknown.GetSpecifiedName(), flagNames(cmd)); best != "" {
			hint = fmt.Sprintf("; did you mean --%s?", best)
		}
	}
	return usage("%w%s (see `%s --help`)", err, hint, cmd.CommandPath())
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// onlySubcommands are the arguments of a command that does nothing by itself.
func onlySubcommands(cmd *cobra.Command, args []string) error {
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
	if best := nearest(args[0], names); best != "" {
		hint = fmt.Sprintf("; did you mean `%s %s`?", cmd.CommandPath(), best)
	}
	return usage("there is no command %q%s (see `%s --help`)", args[0], hint, cmd.CommandPath())
}

// nearest is the candidate that is at most two edits away, or that name begins; empty where there is none.
func nearest(name string, candidates []string) string {
	best, fewest := "", 3
	for _, c := range candidates {
		d := edits(name, c)
		if len(name) > 1 && strings.HasPrefix(c, name) {
			d = 1
		}
		if d < fewest && d < len(name) {
			best, fewest = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance of a and b, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
