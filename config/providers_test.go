package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

func TestProvidersAndTheirKeys(t *testing.T) {
	loaded, err := Load(LoadOptions{Environ: []string{"GEMINI_API_KEY=g", "MINE_API_KEY=m", "ANTHROPIC_API_KEY=a",
		"OPENAI_API_KEY=o"},
		Path: write(t, `
llm.model = "mine:llama3:8b"
[[providers]]
id = "mine"
base_url = "http://127.0.0.1:8000/v1"
[[providers]]
id = "anthropic"
base_url = "https://proxy.example/v1"
api_key = "own"
`)})
	require.NoError(t, err)
	c := loaded.Config
	assert.Equal(t, Provider("mine"), c.EffectiveLLM().Provider)
	assert.Equal(t, "llama3:8b", c.EffectiveLLM().Model)
	assert.Equal(t, []Provider{"anthropic", "gemini", "mine", "openai"}, c.ProviderIDs())
	for id, want := range map[Provider]ModelProvider{
		"mine":      {"mine", APIAuto, "http://127.0.0.1:8000/v1", "m"},
		"anthropic": {"anthropic", turn.APIMessages, "https://proxy.example/v1", "own"},
		"gemini":    {"gemini", turn.APIChat, "https://generativelanguage.googleapis.com/v1beta/openai", "g"},
		"openai":    {"openai", APIAuto, "https://api.openai.com/v1", "o"},
	} {
		got, ok := c.ModelProvider(id)
		assert.True(t, ok, id)
		assert.Equal(t, want, got)
	}
	_, ok := c.ModelProvider("llama3")
	assert.False(t, ok)
	assert.Equal(t, "everturn-inference-127.0.0.1:8000", c.Queue(RoleInference))
}

func TestAModelMayNameItsProvider(t *testing.T) {
	for model, want := range map[string][2]string{
		"anthropic:claude-x": {"openai", "anthropic:claude-x"}, "openai:gpt-x": {"openai", "gpt-x"},
		"llama3:8b": {"openai", "llama3:8b"}, "gpt-x": {"openai", "gpt-x"}, "anthropic:": {"openai", "anthropic:"},
	} {
		c := Default()
		c.LLM.Model, c.LLM.BaseURL = model, "http://127.0.0.1:1/v1"
		l := c.EffectiveLLM()
		assert.Equal(t, want, [2]string{string(l.Provider), l.Model}, model)
		assert.NoError(t, c.Validate(), model)
	}
	c := Default()
	c.LLM.Model = "anthropic:claude-x"
	assert.ErrorContains(t, c.CheckCredentials(), "ANTHROPIC_API_KEY")
	assert.ErrorIs(t, c.CheckCredentials(), ErrCredentials)
	c.LLM.Provider = "openai"
	assert.Equal(t, "anthropic:claude-x", c.EffectiveLLM().Model, "an explicit provider stays")
	c.LLM.Provider = ProviderAuto
	c.Providers = []ModelProvider{{ID: "anthropic", APIKey: "k"}}
	assert.NoError(t, c.CheckCredentials())
}
