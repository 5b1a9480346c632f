package setup

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

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/starter/internal/ui"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/turn"
)

// completeQuarantined returns a function for shell completion: it offers the servers with quarantined tools for the
// first argument, and the server's quarantined tools for the others.
func completeQuarantined(a *app.App) cobra.CompletionFunc {
	return a.Completion(func(ctx context.Context, j client.Journal, args []string) (offers []cobra.Completion) {
		tools, _ := quarantined(ctx, j, firstOf(args))
		for _, q := range tools {
			offer := q.Server
			if len(args) > 0 {
				offer = q.Tool
			}
			offers = append(offers, offer)
		}
		return offers
	})
}

// toolsDiff returns the command that shows the quarantined tools.
func toolsDiff(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "diff [server]",
		Short: "Show the quarantined tools and what has changed in them",
		Long: `Show the quarantined tools: those that are new, or have changed since you approved them. Turns
cannot call them until you approve them with everturn tools approve. Changes are shown line by line,
with every invisible character written out: models read a tool's description, so it can contain
instructions to them.

Exit codes: 0 no tool is quarantined, 1 a tool is quarantined.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeQuarantined(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				tools, err := quarantined(cmd.Context(), j, firstOf(args))
				if err != nil {
					return err
				}
				if err := printQuarantined(a, tools, output); err != nil {
					return err
				}
				if len(tools) > 0 {
					return &app.ExitError{Code: app.ExitFailed}
				}
				return nil
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// quarantinedTool is a quarantined tool with its changes.
type quarantinedTool struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	turn.QuarantinedTool
	// Diff is a unified diff from the approved version to the current one, without escape sequences.
	Diff string `json:"diff"`
}

// firstOf returns the first argument, or "" if there is none.
func firstOf(args []string) string { return strings.Join(args[:min(len(args), 1)], "") }

// quarantined returns the quarantined tools of a server or, if server is "", of all servers. It returns an error if no
// worker has published tools of the server.
func quarantined(ctx context.Context, j client.Journal, server string) ([]quarantinedTool, error) {
	catalogues, err := j.Catalogues(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the quarantined tools: %w", err)
	}
	tools, known := []quarantinedTool{}, []string{}
	for _, c := range catalogues {
		if !slices.Contains(known, c.Server) {
			known = append(known, c.Server)
		}
		if server != "" && c.Server != server {
			continue
		}
		for _, q := range c.Quarantined {
			if slices.ContainsFunc(tools, func(t quarantinedTool) bool { // another worker has it, too
				return t.Tool == q.Now.ID && t.Now.Hash == q.Now.Hash
			}) {
				continue
			}
			tools = append(tools, quarantinedTool{Server: c.Server, Tool: q.Now.ID, QuarantinedTool: q, Diff: changes(q)})
		}
	}
	if server != "" && !slices.Contains(known, server) {
		hint := "; no worker has published tools yet"
		if len(known) > 0 {
			hint = "; known servers: " + app.Line(strings.Join(known, ", "), 200)
		}
		return nil, app.Usage("no worker has published tools of a server %q%s", app.Line(server, 60), hint)
	}
	return tools, nil
}

// printQuarantined prints the quarantined tools and the commands that approve them.
func printQuarantined(a *app.App, tools []quarantinedTool, output string) error {
	return app.PrintList(a.Out, output, tools, func() error {
		if len(tools) == 0 {
			a.Note("no tool is quarantined")
			return nil
		}
		color := a.Colored(a.Out)
		for _, q := range tools {
			fmt.Fprintln(a.Out, q.show(color))
		}
		a.Note("turns cannot call these tools. If you agree with the changes, approve them with\n%s", approveCommands(tools,
			confirmFlag(a)))
		return nil
	})
}

// confirmFlag returns the flag that tools approve needs if this command cannot ask the user.
func confirmFlag(a *app.App) string {
	if a.OnTerminal() {
		return ""
	}
	return " --yes"
}

// approveCommands returns the commands that approve tools, each with more appended.
func approveCommands(tools []quarantinedTool, more string) string {
	var lines []string
	for _, q := range tools {
		lines = append(lines, fmt.Sprintf("  everturn tools approve %s %s --hash %s%s", app.Quoted(q.Server),
			app.Quoted(q.Tool),
			ui.ShortHash(q.Now.Hash), more))
	}
	return strings.Join(lines, "\n")
}

// show returns the change of a tool as text, with the lines of the diff in colour if color is true.
func (q quarantinedTool) show(color bool) string {
	head := app.Line(termsafe.Visible(q.Tool), 120)
	if q.Approved == nil {
		head += fmt.Sprintf(" is new (hash %s)", ui.ShortHash(q.Now.Hash))
	} else {
		head += fmt.Sprintf(" has changed (hash %s; approved: %s)", ui.ShortHash(q.Now.Hash), ui.ShortHash(q.Approved.Hash))
	}
	lines := strings.Split(strings.TrimSuffix(q.Diff, "\n"), "\n")
	for i, l := range lines {
		if color {
			lines[i] = colorDiff(l)
		}
	}
	return head + "\n" + strings.Join(lines, "\n") + "\n"
}

// colorDiff returns a line of a diff with its colour (ECMA-48, SGR).
func colorDiff(l string) string {
	switch {
	case strings.HasPrefix(l, "+"):
		return "\x1b[32m" + l + "\x1b[0m"
	case strings.HasPrefix(l, "-"):
		return "\x1b[31m" + l + "\x1b[0m"
	}
	return l
}

// changes returns a unified diff from the approved version of a tool to the current one. If the texts of both are
// equal, it returns a sentence that says what has changed.
func changes(q turn.QuarantinedTool) string {
	before := ""
	if q.Approved != nil {
		before = describeTool(*q.Approved)
	}
	out := diff.Diff("approved", []byte(before), "now", []byte(describeTool(q.Now)))
	if len(out) == 0 {
		return "  the description and the schema are unchanged; the title, the annotations or the schema of the results " +
			"have changed\n"
	}
	_, out, _ = bytes.Cut(out, []byte("\n")) // the line "diff approved now"
	return string(out)
}

// diffColumns is the width to which lines of descriptions and schemas are wrapped.
const diffColumns = 96

// describeTool returns a tool as lines for a diff: the text that the model reads, the schema of the arguments, and the
// settings that follow from its annotations and the configuration.
func describeTool(d turn.Descriptor) string {
	details := ""
	if len(d.Details) > 0 {
		details = wrapped("other details from its server:\n" + indented(d.Details))
	}
	return wrapped("name for models: "+d.Wire) + wrapped("description:\n"+d.Description) +
		wrapped("schema:\n"+indented(d.Schema)) + details +
		fmt.Sprintf("from its annotations and your configuration:\n  risk: %s\n  activity: %s\n  repeatable: %t\n  "+
			"read-only: %t\n  results are untrusted: %t\n",
			app.Line(string(d.Risk), 40), app.Line(string(d.Activity), 40), d.Repeatable, d.ReadOnly, d.Taints)
}

// indented returns indented JSON, or raw itself if it is not JSON.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// wrapped returns a text with control and invisible characters written as escapes, wrapped to diffColumns. It breaks a
// line after a space if it can, so that a diff compares whole words.
func wrapped(s string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(termsafe.Visible(s), "\n") {
		for more := true; more; more = line != "" { // an empty line is one row
			row := firstRow(line)
			b.WriteString(row + "\n")
			line = line[len(row):]
		}
	}
	return b.String()
}

// firstRow returns the beginning of a line that fits into diffColumns. It examines only as many bytes as a row can
// hold, so that wrapping a long line takes linear time.
func firstRow(line string) string {
	end := min(len(line), utf8.UTFMax*(diffColumns+1))
	for end < len(line) && !utf8.RuneStart(line[end]) { // do not cut a character
		end--
	}
	rows := termsafe.Rows(line[:end], diffColumns)
	if len(rows) == 1 {
		return rows[0]
	}
	if at := strings.LastIndexByte(rows[0], ' ') + 1; at > diffColumns/2 { // otherwise the row would be too short
		return rows[0][:at]
	}
	return rows[0]
}
