package app

import (
	"github.com/spf13/pflag"

	"github.com/everturn/everturn/workflows"
)

// LimitFlags are the limits that a command line may set for one turn.
type LimitFlags struct {
	maxSteps, maxToolCalls int
	maxTokens              int64
	MaxCost                float64
	timeout, retryFor      string
	Request                *workflows.LimitsRequest
}

// Register adds the flags.
func (l *LimitFlags) Register(flags *pflag.FlagSet) {
	flags.IntVar(&l.maxSteps, "max-steps", 0, "the maximum number of inferences of the turn")
	flags.IntVar(&l.maxToolCalls, "max-tool-calls", 0, "the maximum number of tool calls of the turn")
	flags.Int64Var(&l.maxTokens, "max-tokens", 0, "the maximum number of tokens of the turn")
	flags.Float64Var(&l.MaxCost, "max-cost", 0, "the maximum cost of the turn in US dollars")
	flags.StringVar(&l.retryFor, "retry-for", "", "how long an inference waits for a provider that is unavailable, for "+
		"example 1h; 0s: not at all")
	flags.StringVar(&l.timeout, "turn-timeout", "", "the maximum working time of the turn, for example 5m")
}

// Read records the flags that were set; the others keep the configuration's limits.
func (l *LimitFlags) Read(flags *pflag.FlagSet) {
	r := &workflows.LimitsRequest{}
	set := map[string]func(){
		"max-steps":      func() { r.MaxSteps = &l.maxSteps },
		"max-tool-calls": func() { r.MaxToolCalls = &l.maxToolCalls },
		"max-tokens":     func() { r.MaxTokens = &l.maxTokens },
		"max-cost":       func() { r.MaxCostUSD = &l.MaxCost },
		"retry-for":      func() { r.RetryFor = &l.retryFor },
		"turn-timeout":   func() { r.TurnTimeout = &l.timeout },
	}
	flags.Visit(func(f *pflag.Flag) {
		if apply, ok := set[f.Name]; ok {
			apply()
			l.Request = r
		}
	})
}
