package completion

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

// TestTheMaximumOfInputTokensIsAboveTheirCount compares the estimate with counts of the tokenizers o200k_base and
// cl100k_base, the larger one, as the npm package gpt-tokenizer 3 gives them.
func TestTheMaximumOfInputTokensIsAboveTheirCount(t *testing.T) {
	for text, count := range map[string]int64{
		strings.Repeat("The quick brown fox jumps over the lazy dog. ", 10):                         101,
		strings.Repeat("THE QUICK BROWN FOX JUMPS ", 10):                                            81,
		strings.Repeat(`{"type":"object","properties":{"path":{"type":"string"}}}`, 10):             140,
		strings.Repeat("func (a *Activities) record(ctx context.Context) {\n\treturn nil\n}\n", 10): 160,
		strings.Repeat("你好，世界。",
			10): 70,
		strings.Repeat("ሰላም ልዑል እንዴት ነህ ",
			10): 361,
		strings.Repeat("👩‍🚀🎉🧪",
			20): 280,
		strings.Repeat("3.14159265 ", 10): 60,
		strings.Repeat("Donaudampfschifffahrtsgesellschaftskapitän Rechtsschutzversicherungsgesellschaften ", 5): 142,
		"lzNDDA98wqm95cfh2M5piPtzaMpz+C8mfH7r1Si3":                                                               27,
	} {
		got := maxTokensOf(text)
		assert.GreaterOrEqual(t, got, count, "%.40q", text)
		assert.LessOrEqual(t, got, 3*count, "%.40q", text)
	}
	media := turn.Prompt{Messages: []turn.Message{{Media: []turn.Media{{Type: "image/png", Bytes: 100_000}}}}}
	assert.Greater(t, maxInput(media), maxInput(turn.Prompt{})+imageTokens)
}
