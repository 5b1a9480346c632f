package turn

import (
	"fmt"
	"time"
)

// LimitsRequest overrides configured limits for one turn. Durations are strings such as "90s".
type LimitsRequest struct {
	MaxSteps     *int     `json:"max_steps,omitempty"`
	MaxToolCalls *int     `json:"max_tool_calls,omitempty"`
	MaxTokens    *int64   `json:"max_tokens,omitempty"`
	MaxCostUSD   *float64 `json:"max_cost_usd,omitempty"`
	TurnTimeout  *string  `json:"turn_timeout,omitempty"`
	ToolTimeout  *string  `json:"tool_timeout,omitempty"`
	// RetryFor is how long an inference waits for a provider that is unavailable; "0s": it fails at once.
	RetryFor *string `json:"retry_for,omitempty"`
}

// Apply returns l with the requested limits, or an error that names the first invalid one. If r is nil, it returns l
// unchecked.
func (r *LimitsRequest) Apply(l Limits) (Limits, error) {
	if r == nil {
		return l, nil
	}
	set(&l.MaxSteps, r.MaxSteps)
	set(&l.MaxToolCalls, r.MaxToolCalls)
	set(&l.MaxTokens, r.MaxTokens)
	set(&l.MaxCostUSD, r.MaxCostUSD)
	if err := setDuration(&l.TurnTimeout, r.TurnTimeout, "turn_timeout"); err != nil {
		return l, err
	}
	if err := setDuration(&l.ToolTimeout, r.ToolTimeout, "tool_timeout"); err != nil {
		return l, err
	}
	if err := setDuration(&l.RetryFor, r.RetryFor, "retry_for"); err != nil {
		return l, err
	}
	return l, l.Validate()
}

// set copies *from to *to, unless from is nil.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// setDuration parses *from as a duration and stores it in *to, unless from is nil. name is the limit's name in an
// error.
func setDuration(to *time.Duration, from *string, name string) error {
	if from == nil {
		return nil
	}
	d, err := time.ParseDuration(*from)
	if err != nil {
		return fmt.Errorf("limits: %s is %q; write a duration such as \"90s\"", name, Truncate(*from, 80))
	}
	*to = d
	return nil
}
