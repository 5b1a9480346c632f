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
	Request                *workflows.LimitsRequest // the limits that were set, after Read; nil if none was
}

// Register adds the flags of the limits.
func (l *LimitFlags) Register(flags *pflag.FlagSet) {
	flags.IntVar(&l.maxSteps, "max-steps", 0, "the maximum number of inferences of the turn")
	flags.IntVar(&l.maxToolCalls, "max-tool-calls", 0, "the maximum number of tool calls of the turn")
	flags.Int64Var(&l.maxTokens, "max-tokens", 0, "the maximum number of tokens of the turn")
	flags.Float64Var(&l.MaxCost, "max-cost", 0, "the maximum cost of the turn in US dollars")
	flags.StringVar(&l.retryFor, "retry-for", "", "how long an inference waits for a provider that is unavailable, for "+
		"example 1h; 0s: not at all")
	flags.StringVar(&l.timeout, "turn-timeout", "", "the maximum working time of the turn, for example 5m")
}

// Read sets Request to the limits whose flags were set on the command line. The other limits keep their configured
// values.
func (l *LimitFlags) Read(flags *pflag.FlagSet) {
	r := &workflows.LimitsRequest{}
	apply := map[string]func(){
		"max-steps":      func() { r.MaxSteps = &l.maxSteps },
		"max-tool-calls": func() { r.MaxToolCalls = &l.maxToolCalls },
		"max-tokens":     func() { r.MaxTokens = &l.maxTokens },
		"max-cost":       func() { r.MaxCostUSD = &l.MaxCost },
		"retry-for":      func() { r.RetryFor = &l.retryFor },
		"turn-timeout":   func() { r.TurnTimeout = &l.timeout },
	}
	flags.Visit(func(f *pflag.Flag) {
		if set, ok := apply[f.Name]; ok {
			set()
			l.Request = r
		}
	})
}
