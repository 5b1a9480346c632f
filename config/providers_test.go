package config

import (
	"strings"
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
		"mine":      {ID: "mine", API: APIAuto, BaseURL: "http://127.0.0.1:8000/v1", APIKey: "m"},
		"anthropic": {ID: "anthropic", API: turn.APIMessages, BaseURL: "https://proxy.example/v1", APIKey: "own"},
		"gemini":    {ID: "gemini", API: turn.APIChat, BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", APIKey: "g"},
		"openai":    {ID: "openai", API: APIAuto, BaseURL: "https://api.openai.com/v1", APIKey: "o"},
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

// TestAutoIsTheFirstProviderWithAKey loads files and environments, and checks which provider answers with which model.
func TestAutoIsTheFirstProviderWithAKey(t *testing.T) {
	for name, c := range map[string]struct {
		file, environ string
		want          string
	}{
		"nothing":               {"", "", "demo:demo"},
		"OpenAI's key":          {"", "OPENAI_API_KEY", "openai:gpt-4.1-mini"},
		"an endpoint":           {"llm.base_url = \"http://127.0.0.1:1\"\nllm.model = \"m\"", "", "openai:m"},
		"a block of openai":     {"[[providers]]\nid = \"openai\"\napi_key = \"k\"", "ANTHROPIC_API_KEY", "openai:gpt-4.1-mini"},
		"Anthropic's key":       {"", "ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"},
		"two keys":              {"", "MISTRAL_API_KEY GEMINI_API_KEY", "gemini:gemini-3.8-flash"},
		"OpenAI's key is first": {"", "ANTHROPIC_API_KEY OPENAI_API_KEY", "openai:gpt-4.1-mini"},
		"a model of its own":    {"llm.model = \"claude-opus-5\"", "ANTHROPIC_API_KEY", "anthropic:claude-opus-5"},
		"a model elsewhere":     {"llm.model = \"xai:grok-4.7\"", "ANTHROPIC_API_KEY XAI_API_KEY", "xai:grok-4.7"},
		"the file before the environment": {"llm.model = \"m\"\n[[providers]]\nid = \"mine\"\nbase_url = \"http://127.0.0.1:1\"",
			"ANTHROPIC_API_KEY", "mine:m"},
		"a block without its key": {"[[providers]]\nid = \"xai\"", "ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"},
		"the demo by name":        {"llm.provider = \"demo\"", "ANTHROPIC_API_KEY", "demo:demo"},
		"a provider by name":      {"llm.provider = \"anthropic\"", "OPENAI_API_KEY ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"},
		"a selection": {"llm.provider = \"mine\"\nllm.select.preference = \"cost_first\"\n[[providers]]\nid = \"mine\"\n" +
			"base_url = \"http://127.0.0.1:1\"", "", "mine:"},
	} {
		var environ []string
		for _, variable := range strings.Fields(c.environ) {
			environ = append(environ, variable+"=k")
		}
		loaded, err := Load(LoadOptions{Environ: environ, Path: write(t, c.file)})
		require.NoError(t, err, name)
		l := loaded.Config.EffectiveLLM()
		assert.Equal(t, c.want, string(l.Provider)+":"+l.Model, name)
		assert.NoError(t, loaded.Config.CheckCredentials(), name)
	}
	_, err := Load(LoadOptions{Path: write(t, "[[providers]]\nid = \"mine\"\nbase_url = \"http://127.0.0.1:1\"")})
	assert.ErrorContains(t, err, "llm.model")
}
