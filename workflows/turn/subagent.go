package turn

import (
	"regexp"
	"time"
)

// AgentTools begins the IDs of the tools that stand for agents: "agent/<id>".
const AgentTools = "agent/"

// ChildSession returns the session of the agent that a call of an agent's tool starts. It derives from the call alone,
// so a repeated call finds the same session, and every reader finds the session's parent.
func ChildSession(turnID, callID string) string { return AgentTools + turnID + "/" + callID }

var childSession = regexp.MustCompile(`^agent/([^/]+)/(\d{1,9}\.\d{1,9})$`)

// ParentCall returns the call that started the session; ok is false for a session that no call started.
func ParentCall(session string) (turnID, callID string, ok bool) {
	m := childSession.FindStringSubmatch(session)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// Share is the part of a turn's limits that one of its children gets. Zero tokens and a nil cost mean no limit.
type Share struct {
	Tokens  int64
	Cost    *USD
	Timeout time.Duration
}

// ShareOf divides what is left of a turn's tokens and dollars between n children that run at the same time: together
// they cannot use more than is left. The turn makes no inference of its own meanwhile. ok is false if nothing is left
// for one of them.
func ShareOf(l Limits, c Counters, n int) (s Share, ok bool) {
	used := c.Total()
	s.Timeout = Remaining(l, c)
	if l.MaxTokens > 0 {
		if s.Tokens = (l.MaxTokens - used.Total()) / int64(n); s.Tokens < 1 {
			return s, false
		}
	}
	if most := l.MaxCost(); most != nil {
		cost := (*most - used.Cost) / USD(n)
		if s.Cost = &cost; cost < 1 {
			return s, false
		}
	}
	return s, true
}

// Narrow returns l with the limits of other that are lower.
func (l Limits) Narrow(other Limits) Limits {
	if other.MaxTokens > 0 && (l.MaxTokens == 0 || other.MaxTokens < l.MaxTokens) {
		l.MaxTokens = other.MaxTokens
	}
	if other.MaxCostUSD > 0 && (l.MaxCostUSD == 0 || other.MaxCostUSD < l.MaxCostUSD) {
		l.MaxCostUSD = other.MaxCostUSD
	}
	l.MaxSteps = min(l.MaxSteps, other.MaxSteps)
	l.MaxToolCalls = min(l.MaxToolCalls, other.MaxToolCalls)
	l.TurnTimeout, l.ToolTimeout = min(l.TurnTimeout, other.TurnTimeout), min(l.ToolTimeout, other.ToolTimeout)
	l.RetryFor = min(l.RetryFor, other.RetryFor)
	return l
}
