package turn

import "time"

// Allowance is the part of a user message's limits that one turn may use: the message's own turn, the turn of a
// subagent, or a turn that begins with a subagent's answer. Together these turns never use more than the message's
// limits. Nil Tokens and nil Cost mean no limit.
type Allowance struct {
	Steps     int           `json:"steps"`
	ToolCalls int           `json:"tool_calls"`
	Tokens    *int64        `json:"tokens,omitempty"`
	Cost      *USD          `json:"cost_usd,omitempty"`
	Time      time.Duration `json:"time"` // working time; see Counters.Busy
}

// Spending is what was used of an allowance. Steps counts inferences, reprompts and failed attempts, as
// Counters.Spent does.
type Spending struct {
	Steps     int           `json:"steps,omitempty"`
	ToolCalls int           `json:"tool_calls,omitempty"`
	Tokens    int64         `json:"tokens,omitempty"`
	Cost      USD           `json:"cost_usd,omitempty"`
	Time      time.Duration `json:"time,omitempty"`
}

// Add returns the sum of s and o.
func (s Spending) Add(o Spending) Spending {
	return Spending{Steps: s.Steps + o.Steps, ToolCalls: s.ToolCalls + o.ToolCalls, Tokens: s.Tokens + o.Tokens,
		Cost: s.Cost + o.Cost, Time: s.Time + o.Time}
}

// minTime is the least working time with which a turn can begin or continue. Remaining never returns less.
const minTime = time.Second

// Left returns the allowance that remains of the limits after s was used. Its parts are negative if s exceeds them.
func (l Limits) Left(s Spending) Allowance {
	a := Allowance{Steps: l.MaxSteps - s.Steps, ToolCalls: l.MaxToolCalls - s.ToolCalls, Time: l.TurnTimeout - s.Time}
	if l.MaxTokens > 0 {
		tokens := l.MaxTokens - s.Tokens
		a.Tokens = &tokens
	}
	if most := l.MaxCost(); most != nil {
		cost := *most - s.Cost
		a.Cost = &cost
	}
	return a
}

// Within returns l with each limit lowered to the allowance if the allowance is less. The allowance must be Enough,
// because a remainder of 0 tokens or 0 dollars would mean no limit.
func (l Limits) Within(a Allowance) Limits {
	l.MaxSteps, l.MaxToolCalls = min(l.MaxSteps, a.Steps), min(l.MaxToolCalls, a.ToolCalls)
	l.TurnTimeout = min(l.TurnTimeout, a.Time)
	if a.Tokens != nil && (l.MaxTokens == 0 || *a.Tokens < l.MaxTokens) {
		l.MaxTokens = *a.Tokens
	}
	if a.Cost != nil && (l.MaxCostUSD == 0 || a.Cost.Dollars() < l.MaxCostUSD) {
		l.MaxCostUSD = a.Cost.Dollars()
	}
	return l
}

// Enough reports whether a turn can make an inference within the allowance.
func (a Allowance) Enough() bool {
	return a.Steps >= 1 && a.ToolCalls >= 0 && a.Time >= minTime && (a.Tokens == nil || *a.Tokens >= 1) &&
		(a.Cost == nil || *a.Cost >= 1)
}

// All returns the whole allowance as a Spending, which is the most that its turn can have used. Callers count it for
// a turn whose actual spending is unknown. A part without a limit counts as 0.
func (a Allowance) All() Spending {
	s := Spending{Steps: a.Steps, ToolCalls: a.ToolCalls, Time: a.Time}
	if a.Tokens != nil {
		s.Tokens = *a.Tokens
	}
	if a.Cost != nil {
		s.Cost = *a.Cost
	}
	return s
}

// dividedBy returns the allowance divided by n. It grants one step if a.Steps is less than n but not 0, so n results
// may together have more steps than a.
func (a Allowance) dividedBy(n int) Allowance {
	p := Allowance{Steps: max(a.Steps/n, min(a.Steps, 1)), ToolCalls: a.ToolCalls / n, Time: a.Time / time.Duration(n)}
	if a.Tokens != nil {
		tokens := *a.Tokens / int64(n)
		p.Tokens = &tokens
	}
	if a.Cost != nil {
		cost := *a.Cost / USD(n)
		p.Cost = &cost
	}
	return p
}

// Shares are the allowances of the subagents that one step calls. A subagent whose share is not Enough is not
// started.
type Shares struct {
	// Inline is the allowance of each subagent that the turn waits for. Its Time is not divided between them, because
	// they run in parallel.
	Inline Allowance
	// Background is the allowance of each subagent that works in the background. It is half a share, so that the turn
	// can continue meanwhile, or zero if that is too little.
	Background Allowance
}

// SharesOf divides what is left of a turn's limits between the subagents that a step calls, so that together they and
// the turn cannot exceed the limits. calls is the number of all calls of the step; inline and background are the
// numbers of those that call subagents. One step is reserved for the turn, to read the results.
func SharesOf(l Limits, c Counters, calls, inline, background int) Shares {
	left := l.Left(c.Taken())
	left.Steps, left.ToolCalls = left.Steps-1, left.ToolCalls-calls
	n := inline + background
	if n == 0 || left.Steps < n { // each subagent needs at least one step
		return Shares{}
	}
	s := Shares{Inline: left.dividedBy(n)}
	if half := left.dividedBy(2 * n); half.Enough() {
		s.Background = half
	}
	// The background subagents take their time from the turn's; the inline ones run in parallel and share the rest.
	s.Inline.Time = left.Time - time.Duration(background)*s.Background.Time
	return s
}
