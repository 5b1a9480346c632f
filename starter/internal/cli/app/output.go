package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/everturn/everturn/internal/invisible"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// WriteJSON writes v as one line of JSON. It escapes every control and invisible character (see Unseen); encoding/json
// escapes only C0 controls.
func WriteJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding JSON: %w", err)
	}
	if bytes.ContainsFunc(b, Unseen) {
		b = escape(b)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Unseen reports whether a terminal executes a character instead of showing it, or shows nothing for it.
func Unseen(r rune) bool { return termsafe.Unprintable(r) || invisible.Rune(r) }

// escape replaces the characters that Unseen reports by \u escapes. b is JSON without white space between tokens, so
// such characters occur only inside strings, where an escape is valid.
func escape(b []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(b) {
		if !Unseen(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.Bytes()
}

// The values of --output.
const (
	OutputText  = "text"
	OutputJSON  = "json"
	OutputJSONL = "jsonl"
	OutputNone  = "none"
)

// choice is the pflag.Value of a flag that takes one of a few values.
type choice struct {
	value  *string
	values []string
}

func (c choice) String() string { return *c.value }

func (c choice) Type() string { return "string" }

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

// Choose adds a flag that takes one of a few values. The current value is the default.
func Choose(cmd *cobra.Command, flags *pflag.FlagSet, value *string, name, short, help string, values ...string) {
	flags.VarP(choice{value, values}, name, short, help)
	// the flag exists
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// OutputFlag adds --output. The first value is the default.
func OutputFlag(cmd *cobra.Command, output *string, values ...string) {
	*output = values[0]
	Choose(cmd, cmd.Flags(), output, "output", "o", alternatives(values), values...)
}

// PrintList prints a list in the format output: as one JSON array, as one line of JSON for each element, or by calling
// text, which prints it itself.
func PrintList[T any](w io.Writer, output string, list []T, text func() error) error {
	switch output {
	case OutputJSON:
		return WriteJSON(w, append([]T{}, list...)) // a nil list is [] and not null
	case OutputJSONL:
		for _, v := range list {
			if err := WriteJSON(w, v); err != nil {
				return err
			}
		}
		return nil
	}
	return text()
}
