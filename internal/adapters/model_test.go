package adapters

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/modelconfig"
	"github.com/everturn/everturn/workflows/turn"
)

// bytewise is a model that sends its answer byte by byte, and keeps each byte as a raw event of the answer. As a
// turn.Sink it collects what it gets.
type bytewise struct{ text, reasoning string }

func (b *bytewise) Takes(turn.Prompt, string) bool { return false }

func (b *bytewise) Infer(_ context.Context, _ turn.Prompt, sink turn.Sink) (turn.Completion, error) {
	for _, c := range b.text {
		sink.Reasoning(string(c))
		sink.Text(string(c))
	}
	raw, err := json.Marshal(strings.Split(b.text, ""))
	return turn.Completion{Text: b.text, Reasoning: b.text, Raw: raw, FinishReason: "stop"}, err
}

func (b *bytewise) Text(s string)      { b.text += s }
func (b *bytewise) Reasoning(s string) { b.reasoning += s }

// TestATapeHasNoPartOfASecret records an answer with a secret that arrives in pieces: the tape has no part of it, and
// replays the redacted answer.
func TestATapeHasNoPartOfASecret(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tape")
	infer := func(mode string) (got bytewise, answer turn.Completion) {
		cfg := config.Default()
		cfg.LLM.Tape, cfg.LLM.APIKey = mode+":"+dir, "KEY:5E1F09C2/Z8Q7"
		cfg.Runtime.Redact = []string{"TOKEN=[A-F]+"}
		m, err := OpenModel(t.Context(), cfg, &bytewise{text: "it is KEY:5E1F09C2/Z8Q7 and TOKEN=ABCDEF."}, false,
			Secrets(cfg, nil),
			slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		defer func() { assert.NoError(t, m.Close()) }()
		answer, err = m.Infer(t.Context(), turn.Prompt{Model: "any"}, &got)
		require.NoError(t, err)
		return got, answer
	}
	const redacted = "it is [redacted] and [redacted]."
	got, answer := infer("record")
	assert.Equal(t, bytewise{redacted, redacted}, got)
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	b, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for _, part := range []string{"5", "8", "Q", "/", "T", "B"} {
		assert.NotContains(t, string(b), `"`+part+`"`)
	}
	again, replayed := infer("replay")
	assert.Equal(t, got, again)
	answer.Raw, replayed.Raw = nil, nil // the file has the raw answer with line breaks
	assert.Equal(t, answer, replayed)
}

// TestTheDefaultModelsAreInTheList: with only the key of a known provider, one of its models answers that can use
// tools.
func TestTheDefaultModelsAreInTheList(t *testing.T) {
	for _, id := range []config.Provider{"openai", "anthropic", "deepseek", "gemini", "groq", "mistral", "openrouter",
		"xai"} {
		loaded, err := config.Load(config.LoadOptions{Environ: []string{config.KeyVariable(id) + "=k"}})
		require.NoError(t, err)
		cfg := loaded.Config
		cfg.Journal.Path = filepath.Join(t.TempDir(), "journal.db")
		all, err := modelconfig.Models(cfg)
		require.NoError(t, err)
		chain, err := modelconfig.Chain(all, cfg, "")
		require.NoError(t, err, id)
		assert.Equal(t, string(id), chain[0].Provider)
		assert.Equal(t, turn.ModeNative, chain[0].Mode, id)
		assert.Equal(t, id != "openrouter", chain[0].Price != nil, "the list has no models of openrouter")
	}
}

// TestNoWorkerStartsWithAModelThatRefusesItsRequests checks that the error names the key, for a model that takes tools
// only over Responses while it reasons, and for a setting that no model takes.
func TestNoWorkerStartsWithAModelThatRefusesItsRequests(t *testing.T) {
	seed := 7
	for key, change := range map[string]func(*config.Config){
		"":          func(c *config.Config) { c.LLM.Effort = "off" },
		"llm.model": func(*config.Config) {},
		"agents[0].model": func(c *config.Config) {
			c.Agents, c.LLM.Model = []turn.Agent{{ID: "a", Model: c.LLM.Model}}, "openai:gpt-4.1"
		},
		"agents[0].seed": func(c *config.Config) {
			c.LLM.Model, c.Providers[0].API = "openai:gpt-4.1", turn.APIResponses
			c.Agents = []turn.Agent{{ID: "a", ModelSettings: turn.ModelSettings{Seed: &seed}}}
		},
	} {
		cfg := config.Default()
		cfg.LLM.Provider, cfg.LLM.Model = config.ProviderAuto, "openai:gpt-5.6-sol"
		cfg.Providers = []config.ModelProvider{{ID: "openai", API: turn.APIChat, APIKey: "k"}}
		change(&cfg)
		m, err := OpenModel(t.Context(), cfg, nil, false, Secrets(cfg, nil), slog.New(slog.DiscardHandler))
		if key == "" {
			require.NoError(t, err)
			require.NoError(t, m.Close())
			continue
		}
		var problem *config.Error
		require.ErrorAs(t, err, &problem, key)
		assert.Equal(t, key, problem.Problems[0].Key)
	}
}
