package models

import (
	"cmp"
	"math"
	"slices"

	"github.com/everturn/everturn/workflows/turn"
)

// Capability is something that a model can do.
type Capability string

// The capabilities. A configuration can name all of them.
const (
	ToolUse   Capability = "tool_use"  // accepts tools and returns tool calls
	Vision    Capability = "vision"    // accepts images
	Audio     Capability = "audio"     // accepts audio
	Reasoning Capability = "reasoning" // reasons before it answers
	JSONMode  Capability = "json_mode" // answers in a given JSON schema
)

// Profile describes a model of a provider.
type Profile struct {
	Provider        string       `json:"provider"`
	Name            string       `json:"name"` // as the provider's API takes it
	API             turn.API     `json:"api,omitempty"`
	ContextTokens   int64        `json:"context_tokens,omitempty"`    // 0: unknown
	MaxOutputTokens int64        `json:"max_output_tokens,omitempty"` // 0: unknown
	Capabilities    []Capability `json:"capabilities,omitempty"`
	// Reasoning says which levels of effort the model has, and which settings it accepts.
	Reasoning turn.Reasoning `json:"reasoning,omitzero"`
	// Price is nil if it is unknown.
	Price *Price `json:"price,omitempty"`
	// Latency and Quality come from the operator only: a class (fast, medium, slow; empty if unknown), and a tier from
	// 1, the best (0 if unknown).
	Latency string `json:"latency,omitempty"`
	Quality int    `json:"quality,omitempty"`
}

// ID returns "provider:name".
func (p Profile) ID() string { return p.Provider + ":" + p.Name }

// Has reports whether the model has all of these capabilities.
func (p Profile) Has(all ...Capability) bool {
	return !slices.ContainsFunc(all, func(c Capability) bool { return !slices.Contains(p.Capabilities, c) })
}

// Price is a model's price in US dollars per million tokens. Tiers are in ascending order of Above.
type Price struct {
	Rates
	Tiers []Tier `json:"tiers,omitempty"`
}

// Rates are prices in US dollars per million tokens. A cache rate of 0 means that these tokens cost as much as other
// input.
type Rates struct {
	Input       float64 `json:"input"`
	CachedInput float64 `json:"cached_input,omitempty"`
	CacheWrite  float64 `json:"cache_write,omitempty"`
	Output      float64 `json:"output"`
}

// Tier are the rates of inferences with more than Above input tokens.
type Tier struct {
	Above int64 `json:"above"`
	Rates
}

// Exact returns the price in the units of turn.Price, or nil for an unknown price.
func (p *Price) Exact() *turn.Price {
	if p == nil {
		return nil
	}
	out := &turn.Price{Rates: p.Rates.exact()}
	for _, t := range p.Tiers {
		out.Tiers = append(out.Tiers, turn.Tier{Above: t.Above, Rates: t.Rates.exact()})
	}
	return out
}

// exact converts the rates to picodollars per token, with the input rate in place of cache rates of 0.
func (r Rates) exact() turn.Rates {
	pico := func(perMillion float64) int64 { return int64(math.Round(perMillion * 1e6)) }
	return turn.Rates{Input: pico(r.Input), CachedInput: pico(cmp.Or(r.CachedInput, r.Input)),
		CacheWrite: pico(cmp.Or(r.CacheWrite, r.Input)), Output: pico(r.Output)}
}
