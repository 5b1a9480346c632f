package check

import (
	"encoding/json"

	"github.com/everturn/everturn/workflows/turn"
)

// allowances checks I9: all turns that come of a user's message, by subagents and by their answers, make no more steps
// and calls than the message's limits allow, and a turn that begins with an answer is not granted more than what was
// left, or a tool that the message did not have.
func (c *checker) allowances() {
	for _, t := range c.sortedTurns() {
		if _, answer := turn.AnsweringSubagent(t.record.MessageID); !answer && t.caller.IsZero() {
			c.allowance(t)
		}
	}
}

// allowance checks what comes of the message that began the turn root.
func (c *checker) allowance(root *turnLedger) {
	limits := configOf(root)
	if limits.Limits.MaxSteps == 0 {
		return // it could not begin
	}
	steps, calls := 0, 0
	for _, t := range c.sortedTurns() { // in the order in which they began
		if c.rootOf(t) != root {
			continue
		}
		if cfg := configOf(t); cfg.Answers > 0 {
			if left := limits.Limits.MaxSteps - steps; cfg.Limits.MaxSteps > left {
				c.breaks(I9, "turn %s of an answer may make %d steps, and %d were left of its message's", t.record.ID,
					cfg.Limits.MaxSteps, left)
			}
			for _, tool := range cfg.Tools {
				if _, has := limits.Find(tool.ID); !has {
					c.breaks(I9, "turn %s of an answer has %s, which its message does not have", t.record.ID, tool.ID)
				}
			}
		}
		steps, calls = steps+len(t.inferences), calls+len(t.calls)
	}
	if steps > limits.Limits.MaxSteps || calls > limits.Limits.MaxToolCalls {
		c.breaks(I9, "what came of turn %s made %d steps and %d calls; its limits are %d and %d", root.record.ID, steps, calls,
			limits.Limits.MaxSteps, limits.Limits.MaxToolCalls)
	}
}

// rootOf returns the turn that began with the user's message that a turn comes of; nil if the ledgers lack one between.
func (c *checker) rootOf(t *turnLedger) *turnLedger {
	for t != nil {
		caller := t.caller
		if subagent, answer := turn.AnsweringSubagent(t.record.MessageID); answer {
			caller = c.callers[subagent]
		} else if caller.IsZero() {
			return t
		}
		t = c.turns[caller.Turn]
	}
	return nil
}

func configOf(t *turnLedger) (cfg turn.Config) {
	_ = json.Unmarshal(t.record.Config, &cfg) // a turn that could not begin has none
	return cfg
}
