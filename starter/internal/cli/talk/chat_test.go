package talk

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/starter/internal/ui/chat"
)

func TestTheModelsToChooseFrom(t *testing.T) {
	cfg := config.Default()
	assert.Empty(t, modelChoices(cfg), "the demo has one model")
	cfg.LLM.Provider, cfg.LLM.APIKey = "openai", "sk-1234"
	all := modelChoices(cfg)
	i := slices.IndexFunc(all, func(c chat.ModelChoice) bool { return c.Name == "openai:gpt-5-mini" })
	require.GreaterOrEqual(t, i, 0)
	assert.Regexp(t, `^\d+k tokens · \$[\d.]+ in, \$[\d.]+ out per million$`, all[i].Note)
	for _, c := range all {
		assert.True(t, strings.HasPrefix(c.Name, "openai:"), "%s: no key for its provider", c.Name)
	}
}
