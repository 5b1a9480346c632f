package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/modelconfig"
	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Models returns the commands for the list of models.
func Models(a *app.App) *cobra.Command {
	cmd := app.Parent("models", "List, select and update the known models and their prices",
		modelsList(a), modelsShow(a), modelsSelect(a), modelsUpdate(a))
	cmd.Long = `List, select and update the known models and their prices. The program has a list of the main
vendors' models built in. models update keeps a newer one in the folder of the journal. What
[[models]] in agent.toml says about a model wins. Prices are US dollars per million tokens.

A provider of agent.toml whose base_url is a known vendor's, or that has none, takes the models of
the list: another name is an error. Any other base_url is a server of its own, such as Ollama, vLLM
or a proxy: it takes any name, and price and context window are unknown unless [[models]] sets them.`
	cmd.Example = `  everturn models list openai
  everturn models select --require vision --max-input-price 1
  everturn models update list.json`
	return cmd
}

// loadModels returns the models that this configuration knows, and the configuration. If the list that models update
// has fetched cannot be read, it prints a note and uses the built-in list.
func loadModels(a *app.App) (models.Models, config.Config, error) {
	loaded, err := a.Load()
	if err != nil {
		return models.Models{}, config.Config{}, err
	}
	all, err := modelconfig.Models(loaded.Config)
	if err != nil {
		a.Note("%s; the built-in list is used", app.Printable(err.Error()))
	}
	return all, loaded.Config, nil
}

// modelsList returns the command that lists the vendors' models: the built-in list, or the one that models update has
// fetched. It does not apply what [[models]] in agent.toml says of them; models show does.
func modelsList(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list [vendor]",
		Short: "List the known models, of all vendors or of one",
		Long: `List the known models, of all vendors or of one, with the vendors' own prices. models show also applies
what [[models]] in agent.toml says about a model.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, _, err := loadModels(a)
			if err != nil {
				return err
			}
			vendor := strings.Join(args, "") // the argument, or "" if there is none
			if vendor != "" && !all.List.Has(vendor) {
				return app.Usage("the list has no vendor %s; it has %s", app.Line(vendor, 60), vendorNames(all.List))
			}
			profiles := slices.DeleteFunc(slices.Clone(all.List.Models),
				func(p models.Profile) bool { return vendor != "" && p.Provider != vendor })
			return app.PrintList(a.Out, output, profiles, func() error {
				a.Aside("%s", listDate(all.List, time.Now()))
				return printProfiles(a, profiles)
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// vendorNames returns the IDs of the list's vendors, separated by commas.
func vendorNames(list *models.List) string {
	var names []string
	for _, v := range list.Vendors {
		names = append(names, v.ID)
	}
	return strings.Join(names, ", ")
}

// listDate returns a phrase with the date of the list, and when it was fetched.
func listDate(list *models.List, now time.Time) string {
	switch {
	case list.Fetched.IsZero():
		return "models and prices of " + list.Date + ", built in"
	case list.Stale(now):
		return fmt.Sprintf("models and prices of %s, fetched %s: more than a day ago", list.Date,
			list.Fetched.Local().Format(time.DateTime))
	}
	return fmt.Sprintf("models and prices of %s, fetched %s", list.Date, list.Fetched.Local().Format(time.DateTime))
}

// printProfiles prints a table of models.
func printProfiles(a *app.App, profiles []models.Profile) error {
	rows := make([][]string, len(profiles))
	for i, p := range profiles {
		in, out := "unknown", "unknown"
		if p.Price != nil {
			in, out = dollars(p.Price.Input), dollars(p.Price.Output)
		}
		rows[i] = []string{app.Line(p.ID(), 80), tokens(p.ContextTokens), in, out, string(p.API),
			capabilities(p.Capabilities)}
	}
	return a.Table([]string{"MODEL", "CONTEXT", "INPUT $/M", "OUTPUT $/M", "API", "CAN"}, rows)
}

// dollars formats an amount without trailing zeros.
func dollars(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// tokens formats a number of tokens; 0 means that it is unknown.
func tokens(n int64) string {
	switch {
	case n == 0:
		return "unknown"
	case n < 10_000:
		return strconv.FormatInt(n, 10) + " tokens"
	}
	return fmt.Sprintf("%dk tokens", n/1000)
}

// capabilities returns the capabilities of a model, separated by spaces.
func capabilities(list []models.Capability) string {
	var out []string
	for _, c := range list {
		out = append(out, string(c))
	}
	return strings.Join(out, " ")
}

// modelsShow returns the command that shows one model.
func modelsShow(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show [model]",
		Short: "Show what is known of a model, by default the one that turns use",
		Long: `Show what is known of a model of a configured provider, by default the one that turns use. The model
is a name or provider:name. Exit codes: 0 it is known, 3 no configured provider has it.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, cfg, err := loadModels(a)
			if err != nil {
				return err
			}
			name := strings.Join(args, "")
			if name == "" {
				chain, err := modelconfig.Chain(all, cfg, "")
				if err != nil {
					return app.AsUsage(err)
				}
				name = chain[0].Provider + ":" + chain[0].Name
			}
			r, err := all.Requested(name)
			if err != nil {
				return app.AsUsage(err)
			}
			if output == app.OutputJSON {
				return app.WriteJSON(a.Out, r)
			}
			printModel(a, all, r)
			return nil
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON)
	return cmd
}

// printModel prints what is known of a model.
func printModel(a *app.App, all models.Models, r models.Resolved) {
	line := func(label, value string) { fmt.Fprintf(a.Out, "  %-12s %s\n", label, value) }
	fmt.Fprintf(a.Out, "%s (%s)\n", app.Line(r.ID(), 200), r.Status)
	line("API", cmp.Or(string(r.API), "by its name"))
	line("tools", string(all.Model(r, "").Mode))
	line("context", tokens(r.ContextTokens))
	line("output", tokens(r.MaxOutputTokens))
	if levels := r.Reasoning.Levels(); r.Reasoning.Reasons() && len(levels) > 0 {
		line("effort", efforts(levels))
	}
	line("can", cmp.Or(capabilities(r.Capabilities), "text"))
	if r.Price == nil {
		line("price", "unknown: set input_price_per_mtok and output_price_per_mtok under [[models]]")
	} else {
		line("price", rates(r.Price.Rates))
		for _, t := range r.Price.Tiers {
			line("", fmt.Sprintf("above %s of input: %s", tokens(t.Above), rates(t.Rates)))
		}
	}
	a.Aside("%s", listDate(all.List, time.Now()))
}

// efforts lists levels of effort.
func efforts(levels []turn.Effort) string {
	var out []string
	for _, e := range levels {
		out = append(out, string(e))
	}
	return strings.Join(out, ", ")
}

// rates formats the prices of a model.
func rates(r models.Rates) string {
	s := fmt.Sprintf("input $%s, output $%s per million tokens", dollars(r.Input), dollars(r.Output))
	if r.CachedInput > 0 {
		s += ", cached input $" + dollars(r.CachedInput)
	}
	if r.CacheWrite > 0 {
		s += ", written to the cache $" + dollars(r.CacheWrite)
	}
	return s
}

// modelsSelect returns the command that shows which models fit. Its flags override [llm.select] of agent.toml.
func modelsSelect(a *app.App) *cobra.Command {
	var require []string
	var maxInput, maxOutput float64
	var minContext int64
	var output, preference string
	cmd := &cobra.Command{
		Use:   "select",
		Short: "Show which models fit, the best first",
		Long: `Show which models of the configured providers fit, the best first: those that [llm.select] in
agent.toml selects, with what the flags change. cost_first compares the cost of 10,000 input and
1,000 output tokens; latency_first and quality_first compare what [[models]] says. A model of
unknown price never fits a maximum price. Exit codes: 0 there is one, 3 none fits.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, cfg, err := loadModels(a)
			if err != nil {
				return err
			}
			s, isSet := modelconfig.Selection(cfg.LLM.Select), cmd.Flags().Changed
			if isSet("require") {
				s.Require = nil
				for _, c := range require {
					s.Require = append(s.Require, models.Capability(c))
				}
			}
			if isSet("max-input-price") {
				s.MaxInputPrice = &maxInput
			}
			if isSet("max-output-price") {
				s.MaxOutputPrice = &maxOutput
			}
			s.MinContextTokens = cmp.Or(minContext, s.MinContextTokens)
			s.Preference = cmp.Or(models.Preference(preference), s.Preference)
			fit, err := all.Select(s)
			if err != nil {
				return app.AsUsage(err)
			}
			return app.PrintList(a.Out, output, fit, func() error {
				profiles := make([]models.Profile, len(fit))
				for i, r := range fit {
					profiles[i] = r.Profile
				}
				a.Aside("%s", listDate(all.List, time.Now()))
				return printProfiles(a, profiles)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&require, "require", nil, "what the model must do: tool_use, vision, audio, reasoning, json_mode")
	flags.Float64Var(&maxInput, "max-input-price", 0, "highest price in `USD` per million input tokens")
	flags.Float64Var(&maxOutput, "max-output-price", 0, "highest price in `USD` per million output tokens")
	flags.Int64Var(&minContext, "min-context", 0, "smallest context window in `tokens`")
	app.Choose(cmd, flags, &preference, "prefer", "", "what to sort by: cost_first, latency_first or quality_first",
		string(models.CostFirst), string(models.LatencyFirst), string(models.QualityFirst))
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// modelsUpdate returns the command that fetches a newer list of models.
func modelsUpdate(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "update [file | URL]",
		Short: "Take a newer list of models from a file or a URL",
		Long: `Take a newer list of models from a file or an http(s) URL; without one, from llm.models_url. The list
is kept in the folder of the journal; workers read it when they start. A list that is not valid,
older than the one in use, or larger than 16 MiB is refused, and the one in use stays.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, cfg, err := loadModels(a)
			if err != nil {
				return err
			}
			source := cmp.Or(strings.Join(args, ""), cfg.LLM.ModelsURL)
			if source == "" {
				return app.Usage("there is no source: name a file or URL, or set llm.models_url in agent.toml; in use are %s",
					listDate(all.List, time.Now()))
			}
			list, err := readList(cmd.Context(), source)
			if err == nil {
				err = models.Keep(list, cfg.Journal.Path, time.Now())
			}
			if err != nil {
				return fmt.Errorf("%w; in use are %s", err, listDate(all.List, time.Now()))
			}
			fmt.Fprintf(a.Out, "%d models and prices of %s; they were of %s\n", len(list.Models), list.Date, all.List.Date)
			return nil
		},
	}
}

// readList reads a list of models from a URL or a file.
func readList(ctx context.Context, source string) (*models.List, error) {
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		return models.Fetch(ctx, source)
	}
	return models.Read(source)
}
