package setup

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Limits returns the commands for fleet limits.
func Limits(a *app.App) *cobra.Command {
	cmd := app.Parent("limits", "Limit what all workers together request from providers, and pause providers",
		limitsShow(a), limitsSet(a), limitsPause(a), limitsResume(a))
	cmd.Long = `Limit what all workers with this journal together request from a model provider, from one of its models
or for a tenant, and pause providers. A scope is a provider (openai), a model (openai/gpt-4.1) or a
tenant (tenant:acme; tenant:default is the default tenant). A request must fit the limits of all of
its scopes. A turn that has to wait says what it waits for.

The journal keeps what these commands set, and all workers obey it within a second. A limit that was
not set is that of the worker's agent.toml: [provider_limits] for each provider and [tenant_limits]
for each tenant; a model has none. Give all workers the same agent.toml. The limits per second and
minute hold in every second and minute, also the one per second: Temporal's own limit of a task
queue counts neither tokens nor requests in flight.`
	return cmd
}

const scopeUsage = " <provider | provider/model | tenant:name>"

// checkScope refuses names that no request can have, and warns of a provider that this configuration does not use.
func checkScope(a *app.App, cfg config.Config, scope string) error {
	tenant, isTenant := strings.CutPrefix(scope, "tenant:")
	provider, _, _ := strings.Cut(scope, "/")
	switch {
	case isTenant && tenant == "":
		return app.Usage("the scope has no tenant: use tenant:<name>, or tenant:default for the default tenant")
	case isTenant && tenant != "default":
		cfg := config.Default()
		cfg.Tenant = tenant
		if err := cfg.Validate(); err != nil {
			return app.AsUsage(err)
		}
	case !isTenant && provider != string(cfg.EffectiveLLM().Provider):
		a.Note("this configuration's provider is %s, not %s; no request of its workers is in this scope",
			cfg.EffectiveLLM().Provider, app.Line(provider, 60))
	}
	return nil
}

// onScope calls do with the journal and the scope that the command line names.
func onScope(ctx context.Context, a *app.App, scope string, do func(*journal.DB) error) error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	if err := checkScope(a, loaded.Config, scope); err != nil {
		return err
	}
	return a.WithJournal(ctx, do)
}

// defaultsOf returns the configured limits of a scope.
func defaultsOf(cfg config.Config, scope string) fleet.Limits {
	switch {
	case fleet.IsTenantScope(scope):
		return engine.FleetLimits(cfg.TenantLimits)
	case strings.Contains(scope, "/"):
		return fleet.Limits{}
	}
	return engine.FleetLimits(cfg.ProviderLimits)
}

// amount describes a limit.
func amount(name fleet.LimitName, n int64) string {
	switch {
	case name == fleet.LimitReserve:
		return fmt.Sprintf("%d %%", n)
	case n == 0:
		return "none"
	}
	return fmt.Sprint(n)
}

var limitHelp = map[fleet.LimitName]string{
	fleet.LimitRequestsPerSecond: "requests in any second",
	fleet.LimitRequestsPerMinute: "requests in any minute",
	fleet.LimitTokensPerMinute:   "input plus output tokens in any minute",
	fleet.LimitInFlight:          "requests in flight",
	fleet.LimitTokensPerDay:      "tokens in a day of UTC; turns over it fail with tokens_used_up",
	fleet.LimitTokensPerMonth:    "tokens in a month of UTC; turns over it fail with tokens_used_up",
	fleet.LimitReserve:           "percentage that scheduled turns leave to others, except of days and months",
}

func limitFlag(name fleet.LimitName) string { return strings.ReplaceAll(string(name), "_", "-") }

func limitsSet(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set" + scopeUsage,
		Short: "Set limits of a provider, a model or a tenant",
		Long: `Set limits of a provider, a model or a tenant. Each value is a number, "none" for no limit, or
"default" for that of the worker's agent.toml. Limits that are not named stay as they are. Tokens
per day and month are counted from the time when the scope gets its first limit.`,
		Example: `  starter limits set openai --requests-per-second 10 --tokens-per-minute 50000
  starter limits set openai/gpt-4.1 --requests-in-flight 20
  starter limits set tenant:acme --tokens-per-day 1000000`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			limits, err := readLimits(cmd)
			if err != nil {
				return err
			}
			return onScope(cmd.Context(), a, args[0], func(store *journal.DB) error {
				if err := store.SetFleetLimits(cmd.Context(), args[0], limits); err != nil {
					return err
				}
				for _, name := range fleet.LimitNames() {
					switch n, set := limits[name]; {
					case set && n < 0:
						a.Note("%s of %s is the default of agent.toml again", name, fleet.DescribeScope(args[0]))
					case set:
						a.Note("%s of %s is %s", name, fleet.DescribeScope(args[0]), amount(name, n))
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

// readLimits reads the limits that the command line sets; -1 means the default.
func readLimits(cmd *cobra.Command) (fleet.Limits, error) {
	limits := fleet.Limits{}
	for _, name := range fleet.LimitNames() {
		flag := cmd.Flags().Lookup(limitFlag(name))
		if !flag.Changed {
			continue
		}
		most := int64(turn.MaxCount)
		if name == fleet.LimitReserve {
			most = 90
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

// maxPause bounds a pause, so that none that was forgotten stops turns forever.
const maxPause = 30 * 24 * time.Hour

func limitsPause(a *app.App) *cobra.Command {
	var pause time.Duration
	var reason string
	cmd := &cobra.Command{
		Use:   "pause" + scopeUsage,
		Short: "Pause a provider, a model or a tenant for some time",
		Long: `Pause a provider, a model or a tenant for some time: no worker sends it another request. Requests in
flight continue, and turns wait. The pause has your name, ends by itself, and replaces an earlier
one.`,
		Example: `  starter limits pause openai --for 30m --reason "outage, see status.openai.com"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if pause < time.Second || pause > maxPause {
				return app.Usage("--for is %s; it must be from 1s to %s", pause, maxPause)
			}
			return onScope(cmd.Context(), a, args[0], func(store *journal.DB) error {
				p, err := store.PauseScope(cmd.Context(), args[0], app.UserName(), app.Line(reason, 200), pause)
				if err == nil {
					a.Note("%s is paused until %s", fleet.DescribeScope(args[0]), p.Until.Local().Format(time.DateTime))
				}
				return err
			})
		},
	}
	cmd.Flags().DurationVar(&pause, "for", time.Hour, "how long: a `duration` such as 30m")
	cmd.Flags().StringVar(&reason, "reason", "", "the `reason`, which waiting turns show")
	return cmd
}

func limitsResume(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "resume" + scopeUsage,
		Short: "End a pause, or the wait that a provider has asked for",
		Long: `End a pause of a provider, a model or a tenant, or the wait that a provider has asked for with HTTP
429. Turns that wait continue within 20 seconds.`,
		Example: `  starter limits resume openai`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onScope(cmd.Context(), a, args[0], func(store *journal.DB) error {
				waited, err := store.ResumeScope(cmd.Context(), args[0])
				switch {
				case err != nil:
					return err
				case !waited:
					a.Note("%s was not paused", fleet.DescribeScope(args[0]))
				default:
					a.Note("%s is resumed", fleet.DescribeScope(args[0]))
				}
				return nil
			})
		},
	}
}

// scopeShown is a scope with the limits that apply, and those of them that were set.
type scopeShown struct {
	fleet.ScopeState
	Applied fleet.Limits `json:"applied"`
}

func limitsShow(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the limits, what is used of them, and pauses",
		Long: `Show the limits of each provider, model and tenant that the journal knows, what is used of them now,
and pauses. Limits marked with * were set with starter limits set; the others are those of this
agent.toml, and a worker with another one applies its own. Usage is counted while a scope has
limits.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.Load()
			if err != nil {
				return err
			}
			return a.WithJournal(cmd.Context(), func(store *journal.DB) error {
				list, err := scopesShown(cmd.Context(), store, loaded.Config)
				if err != nil {
					return err
				}
				return app.PrintList(a.Out, output, list, func() error {
					for _, s := range list {
						s.print(a.Out)
					}
					return nil
				})
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// scopesShown returns the scopes of the journal, and the configured provider and tenant.
func scopesShown(ctx context.Context, store *journal.DB, cfg config.Config) ([]scopeShown, error) {
	scopes, err := store.FleetScopes(ctx)
	for _, own := range []string{string(cfg.EffectiveLLM().Provider), fleet.TenantScope(cfg.Tenant)} {
		if !slices.ContainsFunc(scopes, func(s fleet.ScopeState) bool { return s.Scope == own }) {
			scopes = append(scopes, fleet.ScopeState{Scope: own, Limits: fleet.Limits{}})
		}
	}
	list := make([]scopeShown, len(scopes))
	for i, s := range scopes {
		list[i] = scopeShown{s, s.Limits.Over(defaultsOf(cfg, s.Scope))}
	}
	return list, err
}

func (s scopeShown) print(w io.Writer) {
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
	for _, name := range fleet.LimitNames() {
		n := s.Applied[name]
		_, set := s.Limits[name]
		if n == 0 && !set || name == fleet.LimitReserve && !limited {
			continue
		}
		limited = true
		mark := ""
		if set {
			mark = " *"
		}
		fmt.Fprintf(w, "  %-20s %s%s%s\n", name, s.used(name), amount(name, n), mark)
	}
	if !limited {
		fmt.Fprintln(w, "  no limits")
	}
}

// used returns how much of a limit is used.
func (s scopeShown) used(name fleet.LimitName) string {
	of := map[fleet.LimitName]int64{
		fleet.LimitRequestsPerSecond: s.Usage.RequestsLastSecond,
		fleet.LimitRequestsPerMinute: s.Usage.RequestsLastMinute,
		fleet.LimitTokensPerMinute:   s.Usage.TokensLastMinute, fleet.LimitInFlight: s.Usage.RequestsInFlight,
		fleet.LimitTokensPerDay: s.Usage.TokensToday, fleet.LimitTokensPerMonth: s.Usage.TokensThisMonth,
	}
	if n, ok := of[name]; ok {
		return fmt.Sprintf("%d of ", n)
	}
	return ""
}

// checkLimits reports what turns of this configuration wait for.
func checkLimits(ctx context.Context, x *examination) (string, error) {
	cfg := x.cfg
	store, err := x.journal()
	switch {
	case err != nil:
		return "", unchecked("journal")
	case store == nil:
		return "there is no journal yet", nil
	}
	list, err := scopesShown(ctx, store, cfg)
	if err != nil {
		return "", err
	}
	limited := 0
	for _, s := range list {
		if refusal := s.Refusal(defaultsOf(cfg, s.Scope)); refusal != nil {
			return "", &warning{"a turn would wait: " + refusal.String()}
		}
		if s.Applies(defaultsOf(cfg, s.Scope)) {
			limited++
		}
	}
	if limited == 0 {
		return "none is set", nil
	}
	return fmt.Sprintf("%d of %d scopes have limits, and none of these is reached", limited, len(list)), nil
}
