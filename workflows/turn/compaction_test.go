package turn_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// conversation is a random transcript: questions, calls with their results, and answers. It ends with a question or
// with results that no model has seen.
func conversation(rng *rand.Rand, size int) (list []turn.Message) {
	text := func(n int) string { return strings.Repeat(fmt.Sprintf("word%d ", len(list)), 1+rng.IntN(n)) }
	for step := 0; len(list) < size; step++ {
		if rng.IntN(4) == 0 {
			list = append(list, turn.Message{Role: turn.RoleAssistant, Text: text(100), TurnID: "t"},
				turn.Message{Role: turn.RoleUser, Text: text(50), TurnID: "t"})
			continue
		}
		m := turn.Message{Role: turn.RoleAssistant, TurnID: "t"}
		var results []turn.Message
		for i := range 1 + rng.IntN(3) {
			id := fmt.Sprintf("%d.%d", step, i)
			m.ToolCalls = append(m.ToolCalls, turn.ToolCall{ID: id, WireID: "w" + id, Tool: "local/read", Arguments: "{}"})
			outcome := []turn.Outcome{turn.OutcomeOK, turn.OutcomeOK, turn.OutcomeError, turn.OutcomeUnknown}[rng.IntN(4)]
			results = append(results, turn.Message{Role: turn.RoleTool, CallID: id, Outcome: outcome, Text: text(600),
				TurnID: "t"})
		}
		list = append(append(list, m), results...)
	}
	return list
}

// TestCompactionsKeepPromptsWhole plans compactions of random conversations, one after another. Whatever is
// compacted, a call stays with its results, what the model has not seen stays, prompts become shorter, later prompts
// extend earlier ones, and each output that is gone is named by its hash.
func TestCompactionsKeepPromptsWhole(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		all := append([]turn.Message{{Role: turn.RoleUser, Text: "the request"}}, conversation(rng, 20+rng.IntN(100))...)
		c := turn.CompactionSettings{ContextTokens: int64(2000 + rng.IntN(30_000)), TriggerRatio: 0.75, TargetRatio: 0.4, ReserveTokens: 200}
		var previous *turn.Compaction
		reason := []turn.CompactionReason{turn.CompactionProjected, turn.CompactionOverflow, turn.CompactionManual}[rng.IntN(3)]
		for end := len(all) / 2; end <= len(all); end += max(len(all)/4, 1) {
			for end < len(all) && all[end].Role == turn.RoleTool {
				end++
			}
			previous = compactOnce(t, c, reason, previous, all, end)
		}
	}
}

func compactOnce(t *testing.T, c turn.CompactionSettings, reason turn.CompactionReason, previous *turn.Compaction,
	all []turn.Message, end int) *turn.Compaction {
	t.Helper()
	plan := turn.PromptSpec{From: 1}
	if previous != nil {
		plan.From = previous.To + 1
	}
	window := all[plan.From-1 : end]
	before := turn.RenderCompacted(plan, turn.PromptConfig{}, previous, nil, window)
	made, todo := turn.PlanCompaction(turn.CompactionInput{CompactionSettings: c, Reason: reason, Previous: previous,
		From: plan.From, Window: window, Prompt: before, Projected: before.Tokens() + c.ReserveTokens,
		Head: turn.Head{Seq: int64(end)}})
	if made == nil {
		return previous
	}
	require.Less(t, made.To, int64(end))
	require.Equal(t, made.Method == turn.CompactionSummarized, len(todo) > 0)
	plan.From = made.To + 1
	rest := all[made.To:end]
	require.NotEqual(t, turn.RoleTool, rest[0].Role, "a result without its call")
	after := turn.RenderCompacted(plan, turn.PromptConfig{}, made, nil, rest)
	if len(todo) == 0 || len(todo) > 3 {
		require.LessOrEqual(t, after.Tokens(), before.Tokens()+100)
	}
	longer := turn.RenderCompacted(plan, turn.PromptConfig{}, made, nil, all[made.To:])
	require.Equal(t, after.Messages, longer.Messages[:len(after.Messages)], "it does not extend the one before")
	for _, r := range made.Kept.Refs {
		require.Equal(t, int64(len(all[r.Seq-1].Text)), r.Bytes)
		require.Contains(t, fmt.Sprint(after.Messages), r.Artifact)
	}
	return made
}

func TestASummaryRequestIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	list := conversation(rng, 200)
	p := turn.SummaryPrompt(turn.Model{Name: "m"}, nil, list, "the blue door", 500, 20_000)
	require.Len(t, p.Messages, 1)
	assert.LessOrEqual(t, len(p.Messages[0].Text), 60_000, "each of many messages has its least")
	assert.Contains(t, p.System, "the blue door")
	assert.Equal(t, 500, p.MaxTokens)
	assert.Empty(t, p.Tools)
}
