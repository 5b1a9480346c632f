package modelconfig

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/workflows/turn"
)

// TestSettingsThatNoModelTakesAreRefused checks which key is named, and that a setting which another model of the
// provider takes is only noted.
func TestSettingsThatNoModelTakesAreRefused(t *testing.T) {
	warm, seed := 0.5, 7
	claude := config.ModelProvider{ID: "anthropic", API: config.APIAuto, APIKey: "k"}
	for name, c := range map[string]struct {
		llm      turn.ModelSettings
		provider turn.ModelSettings
		agent    turn.ModelSettings
		model    string
		more     []config.ModelProvider
		key      string // of the error
		notes    int
	}{
		"nothing":             {},
		"an effort":           {llm: turn.ModelSettings{Effort: "minimal"}},
		"no model has a seed": {llm: turn.ModelSettings{Seed: &seed}, key: "llm.seed"},
		"another provider has": {llm: turn.ModelSettings{Seed: &seed}, notes: 1,
			more: []config.ModelProvider{{ID: "local", BaseURL: "http://127.0.0.1:1"}}},
		"of the provider":      {provider: turn.ModelSettings{Verbosity: "low"}, key: "providers[0].verbosity"},
		"older models take it": {llm: turn.ModelSettings{Temperature: &warm}, notes: 1},
		"of an agent":          {agent: turn.ModelSettings{Temperature: &warm}, key: "agents[0].temperature"},
		"of an agent that does not reason": {llm: turn.ModelSettings{Effort: "off"},
			agent: turn.ModelSettings{Temperature: &warm}, model: "anthropic:claude-sonnet-4-6"},
		"of an agent that reasons": {llm: turn.ModelSettings{Effort: "high"},
			agent: turn.ModelSettings{Temperature: &warm}, model: "anthropic:claude-sonnet-4-6", key: "agents[0].temperature"},
		"of its own model": {agent: turn.ModelSettings{Temperature: &warm}, model: "anthropic:claude-haiku-4-5"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.LLM.Model, cfg.LLM.ModelSettings = "anthropic:claude-opus-4-8", c.llm
			p := claude
			p.ModelSettings = c.provider
			cfg.Providers = append([]config.ModelProvider{p}, c.more...)
			cfg.Agents = []turn.Agent{{ID: "a", Model: c.model, ModelSettings: c.agent}}
			all, err := Models(cfg)
			require.NoError(t, err)
			notes, err := CheckSettings(all, cfg)
			assert.Len(t, notes, c.notes)
			if c.key == "" {
				require.NoError(t, err)
				return
			}
			var problem *config.Error
			require.ErrorAs(t, err, &problem)
			assert.Equal(t, c.key, problem.Problems[0].Key)
			assert.ErrorIs(t, err, config.ErrInvalid)
		})
	}
}

// TestAModelTakesTheEffortsOfTheConfiguration checks that they replace those of the list, with the provider's words.
func TestAModelTakesTheEffortsOfTheConfiguration(t *testing.T) {
	cfg := config.Default()
	cfg.LLM.Model, cfg.LLM.APIKey = "openai:gpt-5.2", "k"
	cfg.Providers = []config.ModelProvider{{ID: "local", BaseURL: "http://127.0.0.1:1"}}
	cfg.Models = []config.Model{{Name: "local:mine", Efforts: []string{"low", "high"}},
		{Name: "local:plain", Efforts: []string{"off"}}, {Name: "openai:gpt-5.2", Efforts: []string{"off", "medium"}}}
	all, err := Models(cfg)
	require.NoError(t, err)
	fitted := func(name string, asked turn.Effort) turn.Model {
		r, err := all.Resolve(name)
		require.NoError(t, err)
		m := all.Model(r, "")
		require.NoError(t, m.Fit(turn.ModelSettings{Effort: asked}, "", false))
		return m
	}
	for _, c := range []struct {
		model       string
		asked, sent turn.Effort
		word        string
	}{
		{"local:mine", "medium", "low", "low"}, {"local:mine", "max", "high", "high"}, {"local:mine", "off", "low", "low"},
		{"local:plain", "high", "", ""}, {"openai:gpt-5.2", "xhigh", "medium", "medium"},
		{"openai:gpt-5.2", "off", "off", "none"},
		{"local:other", "xhigh", "xhigh", "xhigh"},
	} {
		m := fitted(c.model, c.asked)
		assert.Equal(t, c.sent, m.Settings.Effort, "%s %s", c.model, c.asked)
		assert.Equal(t, c.word, m.Reasoning.Word(m.Settings.Effort), "%s %s", c.model, c.asked)
		assert.Equal(t, c.asked != c.sent, m.Fitted.Effort.Why != "", "%s %s", c.model, c.asked)
	}
}
