package setup

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/internal/cli/app"
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
for each tenant; a model has none. Give all workers the same agent.toml. Limits per second and per
minute hold in every window of that length.`
	return cmd
}

// scopeUsage is the argument of the commands for a scope, in their usage.
const scopeUsage = " <provider | provider/model | tenant:name>"

// checkScope returns an error if a scope names an invalid tenant. It prints a note if the scope's provider is not the
// configured one.
func checkScope(a *app.App, cfg config.Config, scope string) error {
	tenant, isTenant := strings.CutPrefix(scope, "tenant:")
	provider, _, _ := strings.Cut(scope, "/")
	switch {
	case isTenant && tenant == "":
		return app.Usage("the scope has no tenant: use tenant:<name>, or tenant:default for the default tenant")
	case isTenant && tenant != "default":
		other := config.Default() // in which only the tenant can be invalid
		other.Tenant = tenant
		if err := other.Validate(); err != nil {
			return app.AsUsage(err)
		}
	case !isTenant && provider != string(cfg.EffectiveLLM().Provider):
		a.Note("this configuration's provider is %s, not %s; no request of its workers is in this scope",
			cfg.EffectiveLLM().Provider, app.Line(provider, 60))
	}
	return nil
}

// onScope calls do with the journal, after it has checked the scope.
func onScope(ctx context.Context, a *app.App, scope string, do func(client.Journal) error) error {
	loaded, err := a.Load()
	if err != nil {
		return err
	}
	if err := checkScope(a, loaded.Config, scope); err != nil {
		return err
	}
	return a.WithJournal(ctx, do)
}

// formatLimit returns the value n of a limit as text. 0 means no limit, except for the reserve, which is a percentage.
func formatLimit(name client.LimitName, n int64) string {
	switch {
	case name == client.LimitReserve:
		return fmt.Sprintf("%d %%", n)
	case n == 0:
		return "none"
	}
	return fmt.Sprint(n)
}
