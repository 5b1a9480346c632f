package turn

import "fmt"

// Usage counts tokens as the provider reports them, and what they cost.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`  // CachedTokens and CacheWriteTokens included
	OutputTokens int64 `json:"output_tokens"` // ReasoningTokens included
	CachedTokens int64 `json:"cached_tokens,omitempty"`
	// CacheWriteTokens are the input tokens that the provider wrote to its cache, if it charges for them.
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty"`
	// Estimated is set if the provider reported no usage, or only part of it because the inference was interrupted. The
	// missing part is estimated at four bytes per token.
	Estimated bool `json:"estimated,omitempty"`
	// Cost is the price of the tokens. If Unpriced is set, a price was unknown, and Cost is only the known part.
	Cost     USD  `json:"cost_usd,omitempty"`
	Unpriced bool `json:"unpriced,omitempty"`
}

// Add returns the sum of u and o. The sum is an estimate if either one is.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		InputTokens:      u.InputTokens + o.InputTokens,
		OutputTokens:     u.OutputTokens + o.OutputTokens,
		CachedTokens:     u.CachedTokens + o.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens + o.CacheWriteTokens,
		ReasoningTokens:  u.ReasoningTokens + o.ReasoningTokens,
		Estimated:        u.Estimated || o.Estimated,
		Cost:             u.Cost + o.Cost,
		Unpriced:         u.Unpriced || o.Unpriced,
	}
}

// Describe returns the tokens for display, such as "1200 in (1000 cached), 80 out (50 reasoning)".
func (u Usage) Describe() string {
	text := fmt.Sprintf("%d in", u.InputTokens)
	if u.CachedTokens > 0 {
		text += fmt.Sprintf(" (%d cached)", u.CachedTokens)
	}
	text += fmt.Sprintf(", %d out", u.OutputTokens)
	if u.ReasoningTokens > 0 {
		text += fmt.Sprintf(" (%d reasoning)", u.ReasoningTokens)
	}
	if u.Estimated {
		text += ", estimated"
	}
	return text
}

// DescribeCost returns the cost for display. It is empty if there are no tokens.
func (u Usage) DescribeCost() string {
	switch {
	case u.Total() == 0:
		return ""
	case !u.Unpriced:
		return u.Cost.String()
	case u.Cost > 0:
		return "at least " + u.Cost.String()
	}
	return "unknown"
}

// Total returns the input tokens plus the output tokens.
func (u Usage) Total() int64 { return u.InputTokens + u.OutputTokens }
