package turn

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestNothingLeftIsNoShare divides limits of which too little is left.
func TestNothingLeftIsNoShare(t *testing.T) {
	t.Parallel()
	l := Limits{MaxSteps: 12, MaxToolCalls: 8, MaxConsecutiveErrors: 2, TurnTimeout: 90 * time.Second}
	few := l
	few.MaxTokens = 100
	assert.False(t, SharesOf(few, Counters{Usage: Usage{InputTokens: 98}}, 3, 3, 0).Inline.Enough(),
		"a share of 0 would be unlimited")
	cheap := l
	cheap.MaxCostUSD = 0.5
	assert.False(t, SharesOf(cheap, Counters{Subagents: Spending{Cost: Dollar / 2}}, 1, 1, 0).Inline.Enough())
	for _, c := range []Counters{{Spent: 11}, {Spent: 10}, {Granted: Spending{Steps: 10}}, {Busy: 90 * time.Second},
		{Granted: Spending{Time: 90 * time.Second}}} {
		assert.False(t, SharesOf(l, c, 2, 2, 0).Inline.Enough(), c)
		assert.False(t, SharesOf(l, c, 2, 1, 1).Background.Enough(), c)
	}
	share := SharesOf(l, Counters{Spent: 1, ToolCalls: 1, Busy: 80 * time.Second}, 3, 2, 0).Inline
	assert.Equal(t, Allowance{Steps: 5, ToolCalls: 2, Time: 10 * time.Second}, share,
		"subagents share the time, because they work at the same time")
	both := SharesOf(l, Counters{Spent: 1}, 2, 1, 1)
	assert.Equal(t, Shares{Inline: Allowance{Steps: 5, ToolCalls: 3, Time: 67500 * time.Millisecond},
		Background: Allowance{Steps: 2, ToolCalls: 1, Time: 22500 * time.Millisecond}}, both)
	assert.Equal(t, 1, SharesOf(Limits{MaxSteps: 3, TurnTimeout: time.Minute}, Counters{Spent: 1}, 0, 0, 1).Background.Steps)
}

func TestAnswersOfSubagents(t *testing.T) {
	t.Parallel()
	session, ok := AnsweringSubagent(SubagentAnswerID(SubagentSession("0190-a", "12.3")))
	assert.True(t, ok)
	assert.Equal(t, SubagentSession("0190-a", "12.3"), session)
	for _, id := range []string{"", "/answer", "agent/a/1.0", "x/a/1.0/answer"} {
		_, ok := AnsweringSubagent(id)
		assert.False(t, ok, id)
	}
	tokens, cost := int64(7), Dollar/4
	assert.Equal(t, Limits{MaxSteps: 3, MaxToolCalls: 2, MaxTokens: 7, MaxCostUSD: 0.25, TurnTimeout: time.Second},
		Limits{MaxSteps: 5, MaxToolCalls: 2, MaxCostUSD: 1, TurnTimeout: time.Minute}.Within(
			Allowance{Steps: 3, ToolCalls: 4, Tokens: &tokens, Cost: &cost, Time: time.Second}))
}
