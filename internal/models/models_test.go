package models_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/models"
	"github.com/everturn/everturn/workflows/turn"
)

var update = flag.Bool("update", false, "write the golden files")

func vendors(ids ...string) models.Models {
	m := models.Models{List: models.BuiltIn()}
	for _, id := range ids {
		m.Endpoints = append(m.Endpoints, models.Endpoint{ID: id, Vendor: id})
	}
	return m
}

func TestTheSnapshotIsSortedDatedAndHasItsNotice(t *testing.T) {
	list := models.BuiltIn()
	assert.NotEmpty(t, list.Date)
	assert.Contains(t, list.Notice, "MIT")
	for i, p := range list.Models[1:] {
		assert.Less(t, list.Models[i].ID(), p.ID())
		assert.Positive(t, p.ContextTokens, p.ID())
		assert.NotEmpty(t, p.API, p.ID())
	}
	for _, v := range []string{"anthropic", "deepseek", "google", "groq", "meta", "mistral", "openai", "xai"} {
		assert.True(t, list.Has(v), v)
	}
}

func TestPricesAreExact(t *testing.T) {
	p := (&models.Price{Rates: models.Rates{Input: 1.25, CachedInput: 0.125, Output: 10},
		Tiers: []models.Tier{{Above: 272_000, Rates: models.Rates{Input: 2.5, Output: 15}}}}).Exact()
	assert.Equal(t, turn.USD(1_250_000), p.Cost(turn.Usage{InputTokens: 1}))
	assert.Equal(t, turn.USD(125_000), p.Cost(turn.Usage{InputTokens: 1, CachedTokens: 1}))
	assert.Equal(t, turn.USD(1_250_000), p.Cost(turn.Usage{InputTokens: 1, CacheWriteTokens: 1}), "as other input")
	assert.Equal(t, 300_000*turn.USD(2_500_000), p.Cost(turn.Usage{InputTokens: 300_000}))
	assert.Nil(t, (*models.Price)(nil).Exact(), "an unknown price stays unknown")
}

func TestResolve(t *testing.T) {
	m := vendors("openai", "anthropic")
	m.Endpoints = append(m.Endpoints, models.Endpoint{ID: "local", API: turn.APIChat})
	m.Overrides = []models.Override{
		{Model: "openai:gpt-99", ContextTokens: 7},
		{Model: "local:llama3.2:3b", Price: &models.Price{Rates: models.Rates{Input: 1, Output: 2}}},
		{Model: "gpt-5", Capabilities: []models.Capability{models.Vision}},
	}
	for name, want := range map[string]struct {
		id      string
		status  models.Status
		api     turn.API
		mode    turn.Mode
		context int64
		priced  bool
	}{
		"gpt-4.1-mini": {"openai:gpt-4.1-mini", models.Mapped, turn.APIResponses, turn.ModeNative, 1_047_576,
			true},
		"openai:gpt-4.1-mini": {"openai:gpt-4.1-mini", models.Mapped, turn.APIResponses, turn.ModeNative, 1_047_576,
			true},
		"gpt-4.1-mini-2025-04-14": {"openai:gpt-4.1-mini-2025-04-14", models.Mapped, turn.APIResponses, turn.ModeNative,
			1_047_576, true},
		"claude-opus-5": {"anthropic:claude-opus-5", models.Mapped, turn.APIMessages, turn.ModeNative,
			1_000_000, true},
		"gpt-99": {"openai:gpt-99", models.MappedWithOverrides, "", turn.ModeNative, 7, false},
		"gpt-5": {"openai:gpt-5", models.MappedWithOverrides, turn.APIResponses, turn.ModeJSON,
			400_000, true},
		"local:llama3.2:3b": {"local:llama3.2:3b", models.MappedWithOverrides, turn.APIChat, turn.ModeNative, 0,
			true},
		"local:gemma3": {"local:gemma3", models.MappedWithOverrides, turn.APIChat, turn.ModeJSON, 0, false},
		"local:anything/of-its:own": {"local:anything/of-its:own", models.MappedWithOverrides, turn.APIChat,
			turn.ModeNative, 0, false},
		"anthropic:claude-haiku-5-5": {"anthropic:claude-haiku-5-5", models.Mapped, turn.APIMessages, turn.ModeNative,
			1_000_000, true},
		"openai:gpt-4.1-mini-latest": {"openai:gpt-4.1-mini-latest", models.Mapped, turn.APIResponses, turn.ModeNative,
			1_047_576, true},
		"anthropic:CLAUDE-HAIKU-5-5": {"anthropic:claude-haiku-5-5", models.Mapped, turn.APIMessages, turn.ModeNative,
			1_000_000, true},
	} {
		r, err := m.Resolve(name)
		require.NoError(t, err, name)
		got := m.Model(r, "because")
		assert.Equal(t, want.id, r.ID(), name)
		assert.Equal(t, want.status, r.Status, name)
		assert.Equal(t, want.api, got.API, name)
		assert.Equal(t, want.mode, got.Mode, name)
		assert.Equal(t, want.context, got.ContextTokens, name)
		assert.Equal(t, want.priced, got.Price != nil, name)
		assert.Equal(t, "because", got.Why)
	}
}

func TestAnUnknownModelIsAnErrorWithAlternatives(t *testing.T) {
	m := vendors("openai")
	for name, want := range map[string]models.UnknownError{
		"gpt-4.1-mimi": {Provider: "openai", Configured: true,
			Alternatives: []string{"openai:gpt-4.1-mini", "openai:gpt-4o-mini", "openai:gpt-5.4-mini"}},
		"anthropic:claude-opus-5": {Provider: "anthropic"},
		"":                        {Provider: "openai", Configured: true},
		"anthropic/claude-opus-5": {Provider: "openai", Configured: true},
	} {
		_, err := m.Resolve(name)
		var unknown *models.UnknownError
		require.ErrorAs(t, err, &unknown, name)
		assert.Equal(t, want.Provider, unknown.Provider, name)
		assert.Equal(t, want.Configured, unknown.Configured, name)
		if want.Alternatives != nil {
			assert.Equal(t, want.Alternatives, unknown.Alternatives, name)
		}
	}
}

func TestARequestedModelHasAConfiguredProvider(t *testing.T) {
	own := models.Models{List: models.BuiltIn(), Endpoints: []models.Endpoint{{ID: "openai"}, {ID: "anthropic",
		Vendor: "anthropic"}}, Overrides: []models.Override{{Model: "ft:mine"}}}
	for name, want := range map[string]string{
		"qwen3:8b": "openai:qwen3:8b", "mistral:latest": "openai:mistral:latest", "llama3.2:x": "openai:llama3.2:x",
		"a/b:free": "openai:a/b:free", "openai:nope:gpt": "openai:nope:gpt", "ft:mine": "openai:ft:mine",
		"anthropic:claude-opus-5": "anthropic:claude-opus-5", "gpt": "openai:gpt",
	} {
		r, err := own.Requested(name)
		require.NoError(t, err, name)
		assert.Equal(t, want, r.ID(), name)
	}
	for _, m := range []models.Models{own, vendors("openai", "anthropic")} {
		for _, name := range []string{"nope:gpt", "antropic:claude-opus-5", "gemini:gemini-2.5-pro", "demo:demo"} {
			_, err := m.Requested(name)
			var unknown *models.UnknownError
			require.ErrorAs(t, err, &unknown, name)
			assert.Equal(t, []string{"openai", "anthropic"}, unknown.Providers, name)
		}
	}
}

// A change of the snapshot changes the golden file; a change of the file without one is a change of the selection.
func TestSelect(t *testing.T) {
	two, ten := 2.0, 10.0
	m := vendors("openai", "anthropic", "google")
	m.Overrides = []models.Override{{Model: "openai:gpt-5-mini", Latency: "fast", Quality: 2},
		{Model: "anthropic:claude-opus-5", Latency: "slow", Quality: 1}, {Model: "google:gemini-2.5-flash",
			Latency: "medium"}}
	var out strings.Builder
	for _, c := range []struct {
		name string
		s    models.Selection
	}{
		{"cost_first", models.Selection{}},
		{"vision and reasoning", models.Selection{Require: []models.Capability{models.Vision, models.Reasoning}}},
		{"at most 2 and 10 dollars", models.Selection{MaxInputPrice: &two, MaxOutputPrice: &ten,
			Require: []models.Capability{models.JSONMode}, MinContextTokens: 500_000}},
		{"audio", models.Selection{Require: []models.Capability{models.Audio}}},
		{"latency_first", models.Selection{Preference: models.LatencyFirst}},
		{"quality_first", models.Selection{Preference: models.QualityFirst}},
		{"nothing", models.Selection{MinContextTokens: 1e9}},
	} {
		fmt.Fprintf(&out, "%s\n", c.name)
		fit, err := m.Select(c.s)
		if err != nil {
			fmt.Fprintf(&out, "  %v\n", err)
		}
		for _, r := range fit[:min(len(fit), 4)] {
			fmt.Fprintf(&out, "  %s %.6f\n", r.ID(), r.Price.Expected())
		}
	}
	golden := filepath.Join("testdata", "select.txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), out.String())
}

const newer = `{"date":"2099-01-01","notice":"mine","vendors":[{"id":"openai","base_url":"https://api.openai.com/v1"}],
	"models":[{"provider":"openai","name":"gpt-99","price":{"input":1,"output":2}}]}`

func TestAListIsFetchedKeptAndOutlivesAFailedRefresh(t *testing.T) {
	body := newer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if body == "" {
			w.WriteHeader(http.StatusBadGateway)
		}
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	journal := filepath.Join(t.TempDir(), "state", "journal.db")
	list, err := models.Fetch(t.Context(), server.URL)
	require.NoError(t, err)
	now := time.Now()
	require.NoError(t, models.Keep(list, journal, now))
	kept, err := models.Load(journal)
	require.NoError(t, err)
	assert.Equal(t, "2099-01-01", kept.Date)
	assert.False(t, kept.Stale(now.Add(23*time.Hour)))
	assert.True(t, kept.Stale(now.Add(25*time.Hour)))
	for name, bad := range map[string]string{"an error": "", "no list": "<html>",
		"an older list":    strings.Replace(newer, "2099", "2001", 1),
		"a negative price": strings.Replace(newer, `"input":1`, `"input":-1`, 1), "too large": strings.Repeat(" ",
			17<<20) + newer} {
		body = bad
		list, err := models.Fetch(t.Context(), server.URL)
		if err == nil {
			err = models.Keep(list, journal, now)
		}
		assert.Error(t, err, name)
		after, err := models.Load(journal)
		require.NoError(t, err)
		assert.Equal(t, kept, after, name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(journal), "models.json"), []byte("{"), 0o600))
	fallback, err := models.Load(journal)
	assert.Error(t, err)
	assert.Equal(t, models.BuiltIn(), fallback)
}

// TestAListThatCameWithACloneIsNotUsed checks that a list which Keep did not write here is not used: its prices decide
// what a limit of costs means.
func TestAListThatCameWithACloneIsNotUsed(t *testing.T) {
	for _, journal := range []string{".everturn/journal.db", "state/journal.db", "${PWD}/journal.db"} {
		author, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
		t.Chdir(author)
		list, err := models.Parse([]byte(newer))
		require.NoError(t, err)
		require.NoError(t, models.Keep(list, os.ExpandEnv(journal), time.Now()))
		kept, err := models.Load(os.ExpandEnv(journal))
		require.NoError(t, err)
		assert.Equal(t, "2099-01-01", kept.Date)
		require.NoError(t, os.CopyFS(clone, os.DirFS(author)))
		t.Chdir(clone)
		used, err := models.Load(os.ExpandEnv(journal))
		assert.ErrorContains(t, err, "was not made here", journal)
		assert.Equal(t, models.BuiltIn(), used)
	}
}

func TestTheVendorOfABaseURL(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.openai.com/v1": "openai", "https://generativelanguage.googleapis.com/v1beta/openai": "google",
		"http://127.0.0.1:11434/v1": "", "https://openai.example.com/v1": "", "": "", "://": "",
	} {
		assert.Equal(t, want, models.BuiltIn().VendorOf(address), address)
	}
}

func TestCapabilitiesGoByPrefix(t *testing.T) {
	for model, want := range map[string]struct{ native, system, images bool }{
		"gpt-4o-mini":           {true, true, true},
		"openai/gpt-4.1-2025":   {true, true, true},
		"GPT-4o":                {true, true, true},
		"gpt-4":                 {true, true, false},
		"o1-mini-2024":          {false, false, false},
		"o1-2024-12-17":         {true, true, true},
		"gpt-6-sol":             {false, true, true},
		"somebody/own-model:7b": {true, true, false},
		"demo":                  {true, true, false},
		"":                      {true, true, false},
	} {
		c := models.CapabilitiesOf(model)
		assert.Equal(t, want.native, slices.Contains(c, models.ToolUse), model)
		assert.Equal(t, want.system, models.TakesSystemRole(model), model)
		assert.Equal(t, want.images, slices.Contains(c, models.Vision), model)
	}
}
