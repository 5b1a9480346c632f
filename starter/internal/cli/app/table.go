package app

import (
	"fmt"
	"regexp"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

// The colours of what the commands print: the terminal's own, which suit its background.
var (
	headStyle  = lipgloss.NewStyle().Bold(true)
	nameStyle  = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	faultStyle = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// states are the styles of the words for states in a table.
var states = map[string]lipgloss.Style{
	"completed": lipgloss.NewStyle().Foreground(lipgloss.Green),
	"connected": lipgloss.NewStyle().Foreground(lipgloss.Green),
	"running":   nameStyle, "waiting": lipgloss.NewStyle().Foreground(lipgloss.Yellow).Bold(true),
	"failed": faultStyle, "failing": faultStyle, "unavailable": faultStyle, "quarantined": faultStyle,
	"cancelled": lipgloss.NewStyle().Faint(true),
}

const gap = 2 // columns of a terminal between two columns of a table

// Table prints rows in columns below the heads. On a terminal it truncates the last column, in rows itself, so that
// each row fits into one line.
func (a *App) Table(heads []string, rows [][]string) error {
	if columns, _ := SizeOf(a.Out); columns > 0 {
		cutLast(heads, rows, columns)
	}
	colour := a.Colored(a.Out)
	text := table.New().Headers(heads...).Rows(rows...).Wrap(false).BorderTop(false).BorderBottom(false).
		BorderLeft(false).BorderRight(false).BorderColumn(false).BorderHeader(false).
		StyleFunc(func(row, column int) lipgloss.Style {
			style := lipgloss.NewStyle()
			switch {
			case !colour:
			case row == table.HeaderRow:
				style = headStyle
			case column == 0:
				style = nameStyle
			default:
				style = states[rows[row][column]] // no style for other words
			}
			return style.PaddingRight(gap)
		}).String()
	for line := range strings.Lines(text) {
		if !colour { // for programs, without the padding of the last column
			line = strings.TrimRight(line, " \n")
		}
		if _, err := fmt.Fprintln(a.Out, strings.TrimRight(line, "\n")); err != nil {
			return err
		}
	}
	return nil
}

// cutLast truncates the last column of a table, in rows itself, so that each row fits into a terminal with this number
// of columns. It leaves the last column at least as wide as its head.
func cutLast(heads []string, rows [][]string, columns int) {
	last := len(heads) - 1
	room := columns // for the last column
	for i := range last {
		widest := ansi.StringWidth(heads[i])
		for _, row := range rows {
			widest = max(widest, ansi.StringWidth(row[i]))
		}
		room -= widest + gap
	}
	for _, row := range rows {
		row[last] = ansi.Truncate(row[last], max(room-gap, len(heads[last])), "…")
	}
}

// helpNames matches the headings, the commands and the flags of a help text.
var helpNames = regexp.MustCompile(`(?m)^\S.*:$|^  [a-z]+ {2,}|^ +(-\w, )?--[\w-]+|^      --[\w-]+`)

// Help sets a help function for root and its subcommands. It wraps the descriptions of flags to the terminal's width,
// spells commands as the user must type them (see WithTypedCommands) and, if the output is coloured, colours headings,
// commands and flags.
func (a *App) Help(root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if columns, _ := SizeOf(a.Out); columns > 0 {
			cmd.Root().SetUsageTemplate(strings.ReplaceAll(cmd.Root().UsageTemplate(), ".FlagUsages",
				fmt.Sprintf(".FlagUsagesWrapped %d", columns)))
		}
		var b strings.Builder // cobra's help, before it is changed
		out := cmd.OutOrStdout()
		cmd.SetOut(&b)
		defer cmd.SetOut(out)
		show(cmd, args)
		text := a.WithTypedCommands(b.String())
		if !a.Colored(out) {
			fmt.Fprint(out, text)
			return
		}
		fmt.Fprint(out, helpNames.ReplaceAllStringFunc(text, func(name string) string {
			if strings.HasPrefix(name, " ") {
				return nameStyle.Render(name)
			}
			return headStyle.Render(name)
		}))
	})
}
