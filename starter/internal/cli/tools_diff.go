package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/starter/internal/ui/terminal"
	"github.com/everturn/everturn/workflows/turn"
)

func (a *app) toolsDiffCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "diff [server]",
		Short: "Show the tools that are held back because they are not what was accepted",
		Long: `Show the tools that are held back because they are not what was accepted: no turn may call them until you say so with
starter tools approve. What has changed is shown line by line, with everything in it that does not show written out: a
tool's description is read by models, and is a way to give them orders.

The exit code is 0 where nothing is held back and 1 where something is.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeHeld,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return usage("--output is %q: use text or json", output)
			}
			store, err := a.lookAt(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			held, err := heldTools(cmd.Context(), store, args)
			if err != nil {
				return err
			}
			if err := a.printHeld(held, output); err != nil {
				return err
			}
			if len(held) > 0 {
				return &exitError{code: exitFailed}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	complete(cmd, "output", "text", "json")
	return cmd
}

// heldTool is a quarantined tool.
type heldTool struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	turn.QuarantinedTool
	// Diff is a unified diff from the approved version to the current one, without escape sequences.
	Diff string `json:"diff"`
}

// heldTools returns the quarantined tools of a server, or of all servers if none is named.
func heldTools(ctx context.Context, store journal.Store, servers []string) ([]heldTool, error) {
	catalogues, err := store.Catalogues(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the tools that are held back: %w", err)
	}
	held, known := []heldTool{}, []string{}
	for _, c := range catalogues {
		known = append(known, c.Server)
		if len(servers) > 0 && c.Server != servers[0] {
			continue
		}
		for _, d := range c.Quarantined {
			held = append(held, heldTool{Server: c.Server, Tool: d.Now.ID, QuarantinedTool: d, Diff: changes(d)})
		}
	}
	if len(servers) > 0 && !slices.Contains(known, servers[0]) {
		hint := "; no worker has published tools yet"
		if len(known) > 0 {
			hint = "; known are " + line(strings.Join(known, ", "), 200)
		}
		return nil, usage("no worker has published tools of a server %q%s", line(servers[0], 60), hint)
	}
	return held, nil
}

// printHeld prints the quarantined tools and the commands that accept them.
func (a *app) printHeld(held []heldTool, output string) error {
	if output == "json" {
		return writeJSON(a.out, held)
	}
	if len(held) == 0 {
		a.note("no tool is held back")
		return nil
	}
	color := a.colored(a.out)
	for _, h := range held {
		fmt.Fprintln(a.out, h.show(color))
	}
	if len(held) > 0 {
		a.note("these tools are held back: no turn calls them. Where you agree with what they are now, accept them:\n%s", acceptCommands(held, a.unasked()))
	}
	return nil
}

// unasked returns the flag that accept needs if this command cannot ask the user.
func (a *app) unasked() string {
	if isTerminal(a.in) && isTerminal(a.err) {
		return ""
	}
	return " --yes"
}

// acceptCommands returns the commands that accept the held tools, each with more appended.
func acceptCommands(held []heldTool, more string) string {
	var lines []string
	for _, h := range held {
		lines = append(lines, fmt.Sprintf("  starter tools approve %s %s --hash %s%s", quoted(h.Server), quoted(h.Tool), shortHash(h.Now.Hash), more))
	}
	return strings.Join(lines, "\n")
}

// show describes the change of a tool.
func (h heldTool) show(color bool) string {
	head := fmt.Sprintf("%s is new (%s)", line(terminal.Visible(h.Tool), 120), shortHash(h.Now.Hash))
	if h.Approved != nil {
		head = fmt.Sprintf("%s has changed (%s, accepted was %s)", line(terminal.Visible(h.Tool), 120), shortHash(h.Now.Hash), shortHash(h.Approved.Hash))
	}
	lines := strings.Split(strings.TrimSuffix(h.Diff, "\n"), "\n")
	for i, l := range lines {
		if color {
			lines[i] = painted(l)
		}
	}
	return head + "\n" + strings.Join(lines, "\n") + "\n"
}

// painted returns a line of a diff with its colour (ECMA-48, SGR).
func painted(l string) string {
	switch {
	case strings.HasPrefix(l, "+"):
		return "\x1b[32m" + l + "\x1b[0m"
	case strings.HasPrefix(l, "-"):
		return "\x1b[31m" + l + "\x1b[0m"
	}
	return l
}

// changes returns a unified diff from the approved version of a tool to the current one.
func changes(d turn.QuarantinedTool) string {
	before := ""
	if d.Approved != nil {
		before = told(*d.Approved)
	}
	out := diff.Diff("accepted", []byte(before), "now", []byte(told(d.Now)))
	if len(out) == 0 {
		return "  its description and its schema are the same; its title, its annotations or the schema of its results are not\n"
	}
	_, out, _ = bytes.Cut(out, []byte("\n")) // the line "diff accepted now"
	return string(out)
}

// diffColumns is the column at which lines of descriptions and schemas are broken.
const diffColumns = 96

// told prints a tool in lines: the text that the model reads, the schema of the arguments, and the settings that follow
// from its annotations and the configuration.
func told(d turn.Descriptor) string {
	also := ""
	if len(d.Details) > 0 {
		also = broken("what else its server says:\n" + indented(d.Details))
	}
	return broken("name for models: "+d.Wire) + broken("description:\n"+d.Description) + broken("schema:\n"+indented(d.Schema)) + also + "by its annotations and your configuration:\n" +
		fmt.Sprintf("  risk %s, %s lane\n  repeatable: %t\n  only reads, and only here: %t\n  its results may be anybody's words: %t\n",
			line(string(d.Risk), 40), line(string(d.Activity), 40), d.Repeatable, d.ReadOnly, d.Taints)
}

// indented returns indented JSON, or raw itself if it is not JSON.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// broken breaks a text into lines that a terminal shows unchanged. It breaks after a space if there is one, so that a
// diff compares whole words.
func broken(s string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(terminal.Visible(s), "\n") {
		for more := true; more; more = line != "" {
			row := firstRow(line)
			b.WriteString(row + "\n")
			line = line[len(row):]
		}
	}
	return b.String()
}

// firstRow returns the beginning of a line that fits into a row of a diff. It examines only as many bytes as a row can
// hold.
func firstRow(line string) string {
	reach := min(len(line), utf8.UTFMax*(diffColumns+1))
	for reach < len(line) && !utf8.RuneStart(line[reach]) {
		reach--
	}
	rows := terminal.Rows(line[:reach], diffColumns)
	if len(rows) == 1 {
		return rows[0]
	}
	if at := strings.LastIndexByte(rows[0], ' ') + 1; at > diffColumns/2 {
		return rows[0][:at]
	}
	return rows[0]
}

// completeHeld offers the servers with quarantined tools, then the tools.
func (a *app) completeHeld(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var found []cobra.Completion
	a.glance(cmd, func(store journal.Store) {
		held, _ := heldTools(cmd.Context(), store, args[:min(len(args), 1)])
		for _, h := range held {
			offer := h.Server
			if len(args) > 0 {
				offer = h.Tool
			}
			if !slices.Contains(found, offer) && !slices.Contains(args, offer) {
				found = append(found, offer)
			}
		}
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}
