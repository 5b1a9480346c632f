package turn

import "time"

// Allowance is what is left of the limits of a user's message for one of the turns that come of it: its own turn, those
// of subagents, and those that answers of subagents begin. Together they never use more than the message's limits. Nil
// tokens and a nil cost mean no limit.
type Allowance struct {
	Steps     int           `json:"steps"`
	ToolCalls int           `json:"tool_calls"`
	Tokens    *int64        `json:"tokens,omitempty"`
	Cost      *USD          `json:"cost_usd,omitempty"`
	Time      time.Duration `json:"time"` // working time; see Counters.Busy
}

// Spending is what was used of an allowance. Steps are those of Counters.Spent.
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

// minTime is the least working time of a turn. Remaining grants as much to a turn that has less.
const minTime = time.Second

// Left returns what is left of the limits after s.
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

// Within returns l, lowered to what is left. The allowance must be enough for a turn.
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

// All is the spending of a turn that may have used the whole allowance.
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

// part returns an nth of the allowance. Its steps may be fewer than n.
func (a Allowance) part(n int) Allowance {
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

// Shares are the allowances of the subagents that one step calls. A share that is not Enough is for no turn.
type Shares struct {
	// Inline is for each subagent that the turn waits for. Its time is for all of them, because they work at the same
	// time.
	Inline Allowance
	// Background is for each other one: half a share, because the turn goes on meanwhile.
	Background Allowance
}

// SharesOf divides what is left of a turn's limits between the subagents that a step calls, so that together they and
// the turn cannot use more. calls is the number of the step's calls, of which inline and background are for subagents.
// The turn keeps one step to read their results.
func SharesOf(l Limits, c Counters, calls, inline, background int) Shares {
	left := l.Left(c.Taken())
	left.Steps, left.ToolCalls = left.Steps-1, left.ToolCalls-calls
	n := inline + background
	if n == 0 || left.Steps < n {
		return Shares{}
	}
	s := Shares{Inline: left.part(n)}
	if half := left.part(2 * n); half.Enough() {
		s.Background = half
	}
	s.Inline.Time = left.Time - time.Duration(background)*s.Background.Time
	return s
}
