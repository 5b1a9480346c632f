package look

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// Usage returns the command that shows tokens and costs.
func Usage(a *app.App) *cobra.Command {
	var output, by, since string
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show tokens and costs by model, tenant, session or day",
		Long: `Show the tokens and the costs of all attempts of inferences, by model, tenant, session or day of UTC. Failed
and stopped attempts count as far as they are known, and imported sessions do not count. A cost is
"unknown" if no price is known, and "at least" an amount if only some prices are.

The command shows the usage of the configured tenant. By tenant, the default tenant sees all tenants.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := sinceTime(since, time.Now())
			if err != nil {
				return err
			}
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				rows, err := j.Usage(cmd.Context(), client.UsageBy(by), from)
				if err != nil {
					return err
				}
				return app.PrintList(a.Out, output, rows, func() error { return printUsage(a, by, rows) })
			})
		},
	}
	by = string(client.UsageByModel)
	app.Choose(cmd, cmd.Flags(), &by, "by", "", "group by model, tenant, session or day", string(client.UsageByModel),
		string(client.UsageByTenant), string(client.UsageBySession), string(client.UsageByDay))
	cmd.Flags().StringVar(&since, "since", "",
		"only usage since a day of UTC (2026-11-01), a time (RFC 3339), or for a time "+
			"until now (24h, 7d)")
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// sinceTime parses the value of --since: a day of UTC, a time, or a duration before now. For "" it returns the zero
// time.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if last := len(text) - 1; text[last] == 'd' {
		if days, err := strconv.Atoi(text[:last]); err == nil && days >= 0 {
			return now.AddDate(0, 0, -days), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, app.Usage("--since %q is not a time: use a day (2026-11-01), a time (2026-11-01T12:00:00Z), or a "+
		"duration until now (24h, 7d)", app.Line(text, 40))
}

// printUsage prints a table with a row for each group and, if there are several, their sum. by is the value of --by.
func printUsage(a *app.App, by string, rows []client.UsageRow) error {
	if len(rows) == 0 {
		a.Aside("nothing was used in this time")
		return nil
	}
	sum := client.UsageRow{Key: "total"}
	var table [][]string
	for _, r := range rows {
		sum.Attempts, sum.Turns, sum.Usage = sum.Attempts+r.Attempts, sum.Turns+r.Turns, sum.Usage.Add(r.Usage)
		if by == string(client.UsageByTenant) && r.Key == "" {
			r.Key = "default"
		}
		table = append(table, usageCells(r))
	}
	if len(rows) > 1 {
		cells := usageCells(sum)
		if by == string(client.UsageByModel) || by == string(client.UsageByDay) {
			cells[1] = "" // a turn may be in several groups
		}
		table = append(table, cells)
	}
	heads := map[string]string{"model": "MODEL", "tenant": "TENANT", "session": "SESSION", "day": "DAY (UTC)"}
	return a.Table([]string{heads[by], "TURNS", "INFERENCES", "INPUT", "CACHED", "OUTPUT", "REASONING", "COST"}, table)
}

// usageCells returns the cells of a group in the table.
func usageCells(r client.UsageRow) []string {
	u := r.Usage
	cost := u.DescribeCost()
	if u.Estimated && !u.Unpriced { // otherwise it is "unknown", or "at least" an amount
		cost = "about " + cost
	}
	return []string{app.Line(r.Key, 60), strconv.Itoa(r.Turns), strconv.Itoa(r.Attempts),
		strconv.FormatInt(u.InputTokens, 10), strconv.FormatInt(u.CachedTokens, 10), strconv.FormatInt(u.OutputTokens, 10),
		strconv.FormatInt(u.ReasoningTokens, 10), cost}
}
