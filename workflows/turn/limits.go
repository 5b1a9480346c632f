package turn

import (
	"fmt"
	"math"
	"time"
)

// Limits bound a turn. A limit of zero for tokens, cost or history messages means no limit; every other limit is at
// least 1. Begin refuses a cost limit if the price of one of the turn's models is unknown.
type Limits struct {
	MaxSteps             int           `json:"max_steps"`
	MaxToolCalls         int           `json:"max_tool_calls"`
	MaxConsecutiveErrors int           `json:"max_consecutive_errors"`
	TurnTimeout          time.Duration `json:"turn_timeout"` // of working time; see Counters.Busy
	ToolTimeout          time.Duration `json:"tool_timeout"`
	MaxReprompts         int           `json:"max_reprompts"`        // 0 means none
	MaxHistoryMessages   int           `json:"max_history_messages"` // 0 means no maximum
	MaxParallelCalls     int           `json:"max_parallel_calls"`
	MaxTokens            int64         `json:"max_tokens,omitempty"`
	MaxCostUSD           float64       `json:"max_cost_usd,omitempty"`
	// RetryFor is how long an inference waits for a provider that is unavailable; 0 means that it fails at once.
	RetryFor time.Duration `json:"retry_for,omitempty"`
}

// MaxCost returns MaxCostUSD, or nil if there is no limit.
func (l Limits) MaxCost() *USD {
	if l.MaxCostUSD <= 0 {
		return nil
	}
	most := USD(math.Round(min(l.MaxCostUSD, 1e6) * float64(Dollar)))
	return &most
}

// KeptMessages returns how many messages stay in the window when it is cut: three fifths of MaxHistoryMessages, see
// Window.
func (l Limits) KeptMessages() int { return max(l.MaxHistoryMessages*3/5, 1) }

// DefaultLimits returns the limits of a turn without configured limits.
func DefaultLimits() Limits {
	return Limits{
		MaxSteps: 50, MaxToolCalls: 100, MaxConsecutiveErrors: 2,
		TurnTimeout: 30 * time.Minute, ToolTimeout: 15 * time.Second,
		MaxReprompts: 1, MaxHistoryMessages: 50, MaxParallelCalls: 8,
		RetryFor: 15 * time.Minute,
	}
}

// Counters are what a turn has used so far. They survive continue-as-new.
type Counters struct {
	// Step is the number of the current inference, from 1; 0 before the first.
	Step int `json:"step"`
	// Spent counts inferences, reprompts and failed attempts. The limit max_steps bounds it.
	Spent             int `json:"spent"`
	ToolCalls         int `json:"tool_calls"`
	ConsecutiveErrors int `json:"consecutive_errors"`
	Reprompts         int `json:"reprompts"`
	// Usage is that of the turn's inferences. If UsageUnknown is set, the last one has failed, and what it has used is not
	// in Usage yet.
	Usage        Usage `json:"usage"`
	UsageUnknown bool  `json:"usage_unknown,omitempty"`
	// Subagents is what the turn's inline subagents and their own subagents have used, without Time, which is in Busy.
	// Granted is the allowance of the subagents that work in the background. Both count against the turn's limits; the
	// journal records the usage with the turns of the subagents.
	Subagents Spending `json:"subagents,omitzero"`
	Granted   Spending `json:"granted,omitzero"`
	// Busy is the working time of inferences and tools, as measured by their activities. It excludes time without a
	// running worker and time spent waiting for a decision, so a turn does not time out because its worker was dead.
	Busy time.Duration `json:"busy"`
	// Repeats counts the latest steps with the same calls and results.
	Repeats Repeats `json:"repeats,omitzero"`
}

// Used returns what the turn and its inline subagents have used.
func (c Counters) Used() Spending {
	own := Spending{Steps: c.Spent, ToolCalls: c.ToolCalls, Tokens: c.Usage.Total(), Cost: c.Usage.Cost, Time: c.Busy}
	return own.Add(c.Subagents)
}

// Taken returns what counts against the turn's limits: what it has used, and what it has granted to subagents in the
// background.
func (c Counters) Taken() Spending { return c.Used().Add(c.Granted) }

// CheckInferenceLimits returns the result of a turn whose limits forbid another inference, or nil if they allow it.
func CheckInferenceLimits(l Limits, c Counters) *Result {
	taken := c.Taken()
	switch {
	case taken.Time >= l.TurnTimeout:
		return timedOut(l)
	case taken.Steps >= l.MaxSteps:
		return exceeded(FinishMaxSteps, "the turn used its %d steps (max_steps)", l.MaxSteps)
	case c.ConsecutiveErrors > l.MaxConsecutiveErrors:
		return exceeded(FinishMaxErrors, "%d consecutive errors (max_consecutive_errors is %d)", c.ConsecutiveErrors,
			l.MaxConsecutiveErrors)
	case l.MaxTokens > 0 && taken.Tokens >= l.MaxTokens:
		return exceeded(FinishMaxTokens, "the turn used %d tokens (max_tokens is %d)", taken.Tokens, l.MaxTokens)
	case l.MaxCost() != nil && taken.Cost >= *l.MaxCost():
		return exceeded(FinishMaxCost, "the turn cost %s (max_cost_usd is %s)", taken.Cost, *l.MaxCost())
	}
	return nil
}

// timedOut returns the result of a turn that has reached its turn_timeout.
func timedOut(l Limits) *Result {
	return exceeded(FinishTimeout, "the turn worked for %s, which is its turn_timeout", l.TurnTimeout)
}

// Exceeded returns the result of a turn for which an activity has refused another inference. why is the first sentence
// of its message.
func Exceeded(reason FinishReason, why string) *Result { return exceeded(reason, "%s", why) }

// CheckCallLimits returns the result of a turn whose limits forbid n more tool calls, or nil if they allow them.
func CheckCallLimits(l Limits, c Counters, n int) *Result {
	taken := c.Taken()
	switch {
	case taken.Time >= l.TurnTimeout:
		return timedOut(l)
	case taken.Steps >= l.MaxSteps:
		return exceeded(FinishMaxSteps,
			"the turn used its %d steps (max_steps), and none is left to read the results of these calls", l.MaxSteps)
	case taken.ToolCalls+n > l.MaxToolCalls:
		return exceeded(FinishMaxToolCalls, "%d tool calls were made and the model asks for %d more (max_tool_calls is %d)",
			taken.ToolCalls, n, l.MaxToolCalls)
	}
	return nil
}

// exceeded returns the result of a turn that ends because of a limit. The format and args give the first sentence of
// its message.
func exceeded(reason FinishReason, format string, args ...any) *Result {
	return &Result{State: StateCompleted, Reason: reason, Code: CodeLimitExceeded, Message: fmt.Sprintf(format, args...) +
		". What was done is kept; raise the limit or ask again to go on."}
}

// Remaining returns the turn's remaining working time, but at least one second, so that it is a valid timeout.
func Remaining(l Limits, c Counters) time.Duration {
	return max(l.TurnTimeout-c.Taken().Time, minTime)
}

// The largest values that limits may have: durations, counts, and US dollars. Sums of them do not overflow.
const (
	MaxDuration = 10 * 365 * 24 * time.Hour
	MaxCount    = 1_000_000_000
	MaxCostUSD  = 1_000_000
	MaxRetryFor = 31 * 24 * time.Hour
)

// Validate returns an error for the first invalid limit.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name        string
		n, min, max float64
	}{
		{"max_steps", float64(l.MaxSteps), 1, MaxCount},
		{"max_tool_calls", float64(l.MaxToolCalls), 0, MaxCount},
		{"max_consecutive_errors", float64(l.MaxConsecutiveErrors), 0, MaxCount},
		{"max_reprompts", float64(l.MaxReprompts), 0, MaxCount},
		{"max_history_messages", float64(l.MaxHistoryMessages), 0, MaxCount},
		{"max_parallel_calls", float64(l.MaxParallelCalls), 1, MaxCount},
		{"max_tokens", float64(l.MaxTokens), 0, MaxCount},
		{"max_cost_usd", l.MaxCostUSD, 0, MaxCostUSD},
	} {
		if !(f.n >= f.min && f.n <= f.max) { // also true of NaN
			return fmt.Errorf("limits: %s is %g; it must be from %g to %.0f", f.name, f.n, f.min, f.max)
		}
	}
	if min(l.TurnTimeout, l.ToolTimeout) <= 0 || max(l.TurnTimeout, l.ToolTimeout) > MaxDuration {
		return fmt.Errorf("limits: turn_timeout is %s and tool_timeout is %s; both must be positive and at most %s",
			l.TurnTimeout, l.ToolTimeout, MaxDuration)
	}
	if l.RetryFor < 0 || l.RetryFor > MaxRetryFor {
		return fmt.Errorf("limits: retry_for is %s; it must be from 0s to %s", l.RetryFor, MaxRetryFor)
	}
	return nil
}
