package setup

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// limitHelp describes the limits in the help of the command. It completes "the maximum number of …".
var limitHelp = map[fleet.LimitName]string{
	fleet.LimitRequestsPerSecond: "requests in any second",
	fleet.LimitRequestsPerMinute: "requests in any minute",
	fleet.LimitTokensPerMinute:   "input plus output tokens in any minute",
	fleet.LimitInFlight:          "requests in flight",
	fleet.LimitTokensPerDay:      "tokens in a day of UTC; turns over it fail with tokens_used_up",
	fleet.LimitTokensPerMonth:    "tokens in a month of UTC; turns over it fail with tokens_used_up",
	fleet.LimitReserve:           "percentage that scheduled turns leave to others, except of days and months",
}

// limitFlag returns the name of a limit's flag.
func limitFlag(name fleet.LimitName) string { return strings.ReplaceAll(string(name), "_", "-") }

// limitsSet returns the command that sets limits of a scope.
func limitsSet(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set" + scopeUsage,
		Short: "Set limits of a provider, a model or a tenant",
		Long: `Set limits of a provider, a model or a tenant. Each value is a number, "none" for no limit, or
"default" for that of the worker's agent.toml. Limits that are not named stay as they are. Tokens
per day and month are counted from the time when the scope gets its first limit.`,
		Example: `  everturn limits set openai --requests-per-second 10 --tokens-per-minute 50000
  everturn limits set openai/gpt-4.1 --requests-in-flight 20
  everturn limits set tenant:acme --tokens-per-day 1000000`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			limits, err := readLimits(cmd)
			if err != nil {
				return err
			}
			return onScope(cmd.Context(), a, args[0], func(j *journal.DB) error {
				if err := j.SetFleetLimits(cmd.Context(), args[0], limits); err != nil {
					return err
				}
				for _, name := range fleet.LimitNames() {
					switch n, set := limits[name]; {
					case set && n < 0:
						a.Note("%s of %s is the default of agent.toml again", name, fleet.DescribeScope(args[0]))
					case set:
						a.Note("%s of %s is %s", name, fleet.DescribeScope(args[0]), formatLimit(name, n))
					}
				}
				return nil
			})
		},
	}
	for _, name := range fleet.LimitNames() {
		cmd.Flags().String(limitFlag(name), "", "the maximum `number` of "+limitHelp[name])
	}
	cmd.Flags().Lookup(
		limitFlag(fleet.LimitReserve)).Usage = "the `percentage` of the limits per second, per minute and " +
		"in flight that scheduled turns leave to others"
	return cmd
}

// readLimits returns the limits whose flags were set on the command line: -1 for the default of agent.toml, and 0 for
// no limit.
func readLimits(cmd *cobra.Command) (fleet.Limits, error) {
	limits := fleet.Limits{}
	for _, name := range fleet.LimitNames() {
		flag := cmd.Flags().Lookup(limitFlag(name))
		if !flag.Changed {
			continue
		}
		most := int64(turn.MaxCount)
		if name == fleet.LimitReserve {
			most = 90 // as in agent.toml
		}
		switch text := flag.Value.String(); text {
		case "default":
			limits[name] = -1
		case "none":
			limits[name] = 0
		default:
			n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
			if err != nil || n < 0 || n > most {
				return nil, app.Usage(`--%s %q: use a number from 0 to %d, "none" or "default"`, flag.Name, text, most)
			}
			limits[name] = n
		}
	}
	if len(limits) == 0 {
		return nil, app.Usage("nothing to set: name a limit, for example --tokens-per-minute 50000")
	}
	return limits, nil
}
