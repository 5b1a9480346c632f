package setup

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
)

// limitsShow returns the command that shows the limits.
func limitsShow(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the limits, what is used of them, and pauses",
		Long: `Show the limits of each provider, model and tenant that the journal knows, what is used of them now,
and pauses. Limits marked with * were set with everturn limits set; the others are those of this
agent.toml, and a worker with another one applies its own. Usage is counted while a scope has
limits.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			return a.WithJournal(cmd.Context(), func(j client.Journal) error {
				list, err := client.ReadLimits(cmd.Context(), j, loaded.Config)
				if err != nil {
					return err
				}
				return app.PrintList(a.Out, output, list, func() error {
					for _, s := range list {
						printLimits(a.Out, s)
					}
					return nil
				})
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// printLimits writes a scope as text: its pause, its limits and their usage.
func printLimits(w io.Writer, s client.LimitsOfScope) {
	fmt.Fprintf(w, "%s\n", app.Line(s.Scope, 200))
	if p := s.Pause; p != nil {
		reason := ""
		if p.Reason != "" {
			reason = " · " + app.Line(p.Reason, 200)
		}
		fmt.Fprintf(w, "  paused until %s by %s%s\n", p.Until.Local().Format(time.DateTime), app.Line(p.By, 80), reason)
	}
	if !s.NotBefore.IsZero() {
		fmt.Fprintf(w, "  waits until %s: the provider refused a request\n", s.NotBefore.Local().Format(time.DateTime))
	}
	limited := false
	for _, name := range client.LimitNames() {
		n := s.Applied[name]
		_, set := s.Limits[name]
		// The reserve is the last name. Without another limit it has no effect.
		if n == 0 && !set || name == client.LimitReserve && !limited {
			continue
		}
		limited = true
		mark := ""
		if set {
			mark = " *"
		}
		fmt.Fprintf(w, "  %-20s %s%s%s\n", name, usedOf(s, name), formatLimit(name, n), mark)
	}
	if !limited {
		fmt.Fprintln(w, "  no limits")
	}
}

// usedOf returns how much of a limit is used, in the form "5 of ", or "" for a limit without usage.
func usedOf(s client.LimitsOfScope, name client.LimitName) string {
	usage := map[client.LimitName]int64{
		client.LimitRequestsPerSecond: s.Usage.RequestsLastSecond,
		client.LimitRequestsPerMinute: s.Usage.RequestsLastMinute,
		client.LimitTokensPerMinute:   s.Usage.TokensLastMinute, client.LimitInFlight: s.Usage.RequestsInFlight,
		client.LimitTokensPerDay: s.Usage.TokensToday, client.LimitTokensPerMonth: s.Usage.TokensThisMonth,
	}
	if n, ok := usage[name]; ok {
		return fmt.Sprintf("%d of ", n)
	}
	return ""
}

// checkLimits is the doctor's check of the fleet limits: it warns if a limit or a pause of any scope that the journal
// knows, or of the configured provider or tenant, would hold a turn back.
func checkLimits(ctx context.Context, x *examination) (string, error) {
	cfg := x.cfg
	j, err := x.journal()
	switch {
	case err != nil:
		return "", unchecked("journal")
	case j == nil:
		return "there is no journal yet", nil
	}
	list, err := client.ReadLimits(ctx, j, cfg)
	if err != nil {
		return "", err
	}
	limited := 0
	for _, s := range list {
		if refusal := s.Refusal(client.DefaultLimits(cfg, s.Scope)); refusal != nil {
			return "", &warning{"a turn would wait: " + refusal.String()}
		}
		if s.Applies(client.DefaultLimits(cfg, s.Scope)) {
			limited++
		}
	}
	if limited == 0 {
		return "none is set", nil
	}
	return fmt.Sprintf("%d of %d scopes have limits, and none of these is reached", limited, len(list)), nil
}
