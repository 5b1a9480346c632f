package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The values of --output.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputJSONL = "jsonl"
	outputNone  = "none"
)

// choice is a flag that takes one of a few values.
type choice struct {
	value  *string
	values []string
}

func (c choice) String() string { return *c.value }
func (c choice) Type() string   { return "string" }

func (c choice) Set(s string) error {
	if !slices.Contains(c.values, s) {
		return fmt.Errorf("use %s", alternatives(c.values))
	}
	*c.value = s
	return nil
}

// alternatives lists values as "a, b or c".
func alternatives(values []string) string {
	last := len(values) - 1
	if last < 1 {
		return strings.Join(values, "")
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// choose adds a flag that takes one of a few values. The current value is the default.
func choose(cmd *cobra.Command, flags *pflag.FlagSet, value *string, name, short, help string, values ...string) {
	flags.VarP(choice{value, values}, name, short, help)
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// outputFlag adds --output. The first value is the default.
func outputFlag(cmd *cobra.Command, output *string, values ...string) {
	*output = values[0]
	choose(cmd, cmd.Flags(), output, "output", "o", alternatives(values), values...)
}

// printList prints a list as one JSON array, as one line of JSON for each element, or as text.
func printList[T any](w io.Writer, output string, list []T, text func() error) error {
	switch output {
	case outputJSON:
		return writeJSON(w, append([]T{}, list...))
	case outputJSONL:
		for _, v := range list {
			if err := writeJSON(w, v); err != nil {
				return err
			}
		}
		return nil
	}
	return text()
}
