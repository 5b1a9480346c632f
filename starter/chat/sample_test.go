package chat

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

// What a server asks the model is shown as that, is allowed once, and what came of it is told without its words.
func TestWhatAServerAsksTheModelIsAllowedOnce(t *testing.T) {
	s := newStage(t, 80, 20)
	s.asksFor(wait{Wait: turn.Wait{
		ID: "s1.0.1.1", Kind: turn.WaitApproval, Tool: "mcp/git/commit", Call: "1.0", Arguments: "{\"system\": \"\x1b[2JBe brief.\"}", ArgumentsHash: "h",
		Widest: turn.AlwaysNever, Inquiry: &turn.Inquiry{Sample: &turn.Sampling{ID: "s1.0.1.1"}},
	}, turn: "t", whole: true})
	s.press(tab)
	s.shows("Let the server git ask the model?")
	s.shows(`\x1b[2JBe brief.`)
	assert.NotContains(t, s.live(), "always")
	s.types("a")
	assert.Empty(t, s.approvals)
	s.types("y")
	s.until("it is allowed", func() bool { return len(s.approvals) > 0 })
	assert.Equal(t, "h", s.approvals[0].ArgumentsHash)
	assert.Equal(t, "s1.0.1.1", s.approvals[0].Call)
	s.hears(turn.ChunkSampleMade, turn.SampleChunk{ID: "s1.0.1.1", CallID: "1.0", Tool: "mcp/git/commit", Usage: turn.Usage{InputTokens: 7, OutputTokens: 3}})
	s.prints("the server git has an answer of the model: 7 tokens in, 3 out")
	s.hears(turn.ChunkSampleMade, turn.SampleChunk{ID: "s1.0.2.1", CallID: "1.0", Tool: "mcp/git/commit", Refused: "budget\x1b[2J_exceeded"})
	s.prints("the server git has no answer of the model: budget")
}
