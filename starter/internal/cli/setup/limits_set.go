package setup

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// limitHelp describes the limits in the help of the command. It completes "the maximum number of …".
var limitHelp = map[client.LimitName]string{
	client.LimitRequestsPerSecond: "requests in any second",
	client.LimitRequestsPerMinute: "requests in any minute",
	client.LimitTokensPerMinute:   "input plus output tokens in any minute",
	client.LimitInFlight:          "requests in flight",
	client.LimitTokensPerDay:      "tokens in a day of UTC; turns over it fail with tokens_used_up",
	client.LimitTokensPerMonth:    "tokens in a month of UTC; turns over it fail with tokens_used_up",
	client.LimitReserve:           "percentage that scheduled turns leave to others, except of days and months",
}

// limitFlag returns the name of a limit's flag.
func limitFlag(name client.LimitName) string { return strings.ReplaceAll(string(name), "_", "-") }

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
			return onScope(cmd.Context(), a, args[0], func(j client.Journal) error {
				if err := j.SetFleetLimits(cmd.Context(), args[0], limits); err != nil {
					return err
				}
				for _, name := range client.LimitNames() {
					switch n, set := limits[name]; {
					case set && n < 0:
						a.Note("%s of %s is the default of agent.toml again", name, client.DescribeScope(args[0]))
					case set:
						a.Note("%s of %s is %s", name, client.DescribeScope(args[0]), formatLimit(name, n))
					}
				}
				return nil
			})
		},
	}
	for _, name := range client.LimitNames() {
		cmd.Flags().String(limitFlag(name), "", "the maximum `number` of "+limitHelp[name])
	}
	cmd.Flags().Lookup(
		limitFlag(client.LimitReserve)).Usage = "the `percentage` of the limits per second, per minute and " +
		"in flight that scheduled turns leave to others"
	return cmd
}

// readLimits returns the limits whose flags were set on the command line: -1 for the default of agent.toml, and 0 for
// no limit.
func readLimits(cmd *cobra.Command) (client.Limits, error) {
	limits := client.Limits{}
	for _, name := range client.LimitNames() {
		flag := cmd.Flags().Lookup(limitFlag(name))
		if !flag.Changed {
			continue
		}
		most := int64(turn.MaxCount)
		if name == client.LimitReserve {
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
