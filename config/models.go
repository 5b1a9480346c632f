package config

import "fmt"

// Model describes a model: what the built-in list of models does not know, or gets wrong for this account.
type Model struct {
	// The model, as "provider:name", or its name at any provider.
	Name string `toml:"name" required:"true" maxbytes:"200" example:"openai:my-model"`
	// The context window in tokens; 0 leaves it to the list. If it is unknown, nothing is compacted.
	ContextTokens int64 `toml:"context_tokens" min:"0" example:"131072"`
	// What the model can do: "tool_use", "vision", "audio", "reasoning", "json_mode". It replaces what the list says.
	Capabilities []string `toml:"capabilities" enum:"tool_use,vision,audio,reasoning,json_mode" example:"tool_use,vision"`
	// The levels of effort that it takes, in place of the list's; "off" alone means that it does not reason.
	Efforts []string `toml:"efforts" enum:"off,minimal,low,medium,high,xhigh,max" example:"low,medium,high"`
	// US dollars per million input tokens, and per million output tokens; set both. They replace the list's prices.
	InputPrice *float64 `toml:"input_price_per_mtok" min:"0" max:"1000000" example:"1.5"`
	// US dollars per million output tokens.
	OutputPrice *float64 `toml:"output_price_per_mtok" min:"0" max:"1000000" example:"6.5"`
	// US dollars per million input tokens that the provider reads from its cache; the input price if it is not set.
	CachedInputPrice *float64 `toml:"cached_input_price_per_mtok" min:"0" max:"1000000" example:"0.5"`
	// US dollars per million input tokens that the provider writes to its cache; the input price if it is not set.
	CacheWritePrice *float64 `toml:"cache_write_price_per_mtok" min:"0" max:"1000000" example:"1.5"`
	// How fast the model answers, for preference = "latency_first".
	Latency string `toml:"latency" enum:",fast,medium,slow" example:"fast"`
	// How good the model is, for preference = "quality_first": 1 is the best tier; 0 means none.
	Quality int `toml:"quality" min:"0" max:"1000" example:"1"`

	// MaxOutputTokens is the longest completion in tokens; 0 leaves it to the list. It has no key, because
	// llm.max_output_tokens bounds the completions of models that the list lacks.
	MaxOutputTokens int64
}

// Select chooses a model by what it must do and may cost, if no model is named.
type Select struct {
	// Sort by "cost_first" (10,000 input and 1,000 output tokens), "latency_first" or "quality_first" (the operator's
	// words under [[models]]). Empty means that nothing is selected.
	Preference string `toml:"preference" enum:",cost_first,latency_first,quality_first"`
	// What the model must be able to do: "tool_use", "vision", "audio", "reasoning", "json_mode".
	Require []string `toml:"require" enum:"tool_use,vision,audio,reasoning,json_mode"`
	// Highest price in US dollars per million input tokens; models without a known price do not fit.
	MaxInputPrice *float64 `toml:"max_input_price_per_mtok" min:"0" example:"2.5"`
	// Highest price in US dollars per million output tokens.
	MaxOutputPrice *float64 `toml:"max_output_price_per_mtok" min:"0" example:"10"`
	// Smallest context window in tokens.
	MinContextTokens int64 `toml:"min_context_tokens" min:"0"`
}

// models checks [[models]]: that no model occurs twice, and that its prices are complete.
func (v *validator) models(list []Model) {
	seen := map[string]bool{}
	for i, m := range list {
		key := fmt.Sprintf("models[%d]", i)
		if seen[m.Name] {
			v.add(key+".name", "is %s, which is described twice; write one [[models]] for each model", quote(m.Name))
		}
		seen[m.Name] = true
		if (m.InputPrice == nil) != (m.OutputPrice == nil) {
			v.add(key, "has only one of input_price_per_mtok and output_price_per_mtok; set both")
		} else if m.InputPrice == nil && (m.CachedInputPrice != nil || m.CacheWritePrice != nil) {
			v.add(key, "has a price of cached tokens without input_price_per_mtok and output_price_per_mtok; set those too")
		}
	}
}
