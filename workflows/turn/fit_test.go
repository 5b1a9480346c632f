package turn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// claude and gpt are models whose levels are known.
func claude() turn.Model {
	return turn.Model{Name: "claude", API: turn.APIMessages, Reasoning: turn.Reasoning{Default: turn.EffortHigh,
		Sampling: turn.SamplingNever, NoForcedTool: true, Efforts: map[turn.Effort]string{turn.EffortLow: "low",
			turn.EffortMedium: "medium", turn.EffortHigh: "high", turn.EffortMax: "max"}}}
}

func gpt() turn.Model {
	return turn.Model{Name: "gpt", API: turn.APIResponses, Reasoning: turn.Reasoning{Default: turn.EffortOff,
		Sampling: turn.SamplingWithEffort0, Efforts: map[turn.Effort]string{turn.EffortOff: "none", turn.EffortLow: "low",
			turn.EffortHigh: "high"}}}
}

func TestAnEffortIsLoweredToWhatTheModelHas(t *testing.T) {
	plain := turn.Model{Name: "plain", Reasoning: turn.Reasoning{Efforts: map[turn.Effort]string{turn.EffortOff: ""}}}
	for _, c := range []struct {
		model              turn.Model
		asked, limit, sent turn.Effort
		differs            bool
	}{
		{model: claude()},
		{model: claude(), asked: turn.EffortHigh, sent: turn.EffortHigh},
		{model: claude(), asked: turn.EffortXHigh, sent: turn.EffortHigh, differs: true},
		{model: claude(), asked: turn.EffortMinimal, sent: turn.EffortLow, differs: true},
		{model: claude(), asked: turn.EffortOff, sent: turn.EffortLow, differs: true},
		{model: claude(), asked: turn.EffortMax, limit: turn.EffortMedium, sent: turn.EffortMedium, differs: true},
		{model: claude(), limit: turn.EffortLow, sent: turn.EffortLow, differs: true},
		{model: gpt(), limit: turn.EffortLow},
		{model: gpt(), asked: turn.EffortOff, sent: turn.EffortOff},
		{model: gpt(), asked: turn.EffortMinimal, sent: turn.EffortLow, differs: true},
		{model: gpt(), asked: turn.EffortHigh, limit: turn.EffortMedium, sent: turn.EffortLow, differs: true},
		{model: plain, asked: turn.EffortHigh, differs: true},
		{model: plain, asked: turn.EffortOff},
		{model: plain, limit: turn.EffortLow},
		{model: turn.Model{Name: "unknown"}, asked: turn.EffortXHigh, sent: turn.EffortXHigh},
	} {
		m := c.model
		require.NoError(t, m.Fit(turn.ModelSettings{Effort: c.asked}, c.limit, false))
		assert.Equal(t, c.sent, m.Settings.Effort, "%s asked for %q, limit %q", m.Name, c.asked, c.limit)
		if c.asked == "" && c.sent == "" {
			assert.Nil(t, m.Fitted.Effort)
			continue
		}
		require.NotNil(t, m.Fitted.Effort)
		assert.Equal(t, c.asked, m.Fitted.Effort.Asked)
		assert.Equal(t, c.sent, m.Fitted.Effort.Sent)
		assert.Equal(t, c.differs, m.Fitted.Effort.Why != "", "%+v", c)
	}
}

func TestASettingThatTheModelRefuses(t *testing.T) {
	warm, seed := 0.5, 7
	sampling := turn.ModelSettings{Temperature: &warm, TopP: &warm}
	all := sampling.Over(turn.ModelSettings{Seed: &seed, Stop: []string{"x"}, Verbosity: "low",
		ToolChoice: turn.ChoiceRequired})
	omitted := func(m turn.Model) (names []string) {
		for _, o := range m.Fitted.Omitted {
			names = append(names, o.Setting)
		}
		return names
	}
	var refused *turn.Error
	for _, s := range []turn.ModelSettings{sampling, {Seed: &seed}, {Verbosity: "low"}, {ToolChoice: "local/read_file"}} {
		m := claude()
		require.ErrorAs(t, m.Fit(s, "", false), &refused, "%+v", s)
		assert.Equal(t, turn.CodeInputInvalid, refused.Code)
	}
	m := claude() // as a fallback
	require.NoError(t, m.Fit(all, "", true))
	assert.Equal(t, []string{"temperature", "top_p", "seed", "verbosity", "tool_choice"}, omitted(m))
	assert.Equal(t, turn.ModelSettings{Stop: []string{"x"}}, m.Settings)

	m = claude() // from the configuration of the provider
	m.Settings = all
	require.NoError(t, m.Fit(turn.ModelSettings{Effort: turn.EffortLow}, "", false))
	assert.Equal(t, turn.ModelSettings{Effort: turn.EffortLow, ReasoningSummary: turn.SummaryAuto, Stop: []string{"x"}}, m.Settings)

	m = gpt()
	require.Error(t, m.Fit(sampling, "", false), "its default effort is not said")
	m = gpt()
	require.NoError(t, m.Fit(sampling.Over(turn.ModelSettings{Effort: turn.EffortOff}), "", false))
	assert.Equal(t, &warm, m.Settings.Temperature)
	m = gpt()
	require.NoError(t, m.Fit(turn.ModelSettings{ToolChoice: turn.ChoiceRequired}, "", false))
	assert.Empty(t, m.Fitted.Omitted)
}

func TestSettingsOfTheMessageComeFirst(t *testing.T) {
	no, cold, warm := false, 0.0, 1.0
	base := turn.ModelSettings{Effort: turn.EffortLow, Temperature: &warm, Stop: []string{"a"}, ServiceTier: "flex"}
	own := turn.ModelSettings{Effort: turn.EffortHigh, Temperature: &cold, ParallelToolCalls: &no}
	assert.Equal(t, turn.ModelSettings{Effort: turn.EffortHigh, Temperature: &cold, ParallelToolCalls: &no,
		Stop: []string{"a"}, ServiceTier: "flex"}, own.Over(base))
	assert.True(t, turn.ModelSettings{}.Empty())
	assert.False(t, own.Empty())
	assert.Equal(t, base, turn.ModelSettings{}.Over(base))
}

func TestTheOutputLimitLeavesRoomForThinking(t *testing.T) {
	budget := turn.Model{API: turn.APIMessages, MaxOutputTokens: 64_000, Reasoning: turn.Reasoning{Format: turn.ThinkingBudget}}
	assert.Equal(t, 1000, budget.OutputTokens(1000))
	assert.Zero(t, budget.OutputTokens(0))
	budget.Settings.Effort = turn.EffortMedium
	assert.Equal(t, 1000+8192, budget.OutputTokens(1000))
	assert.Equal(t, 64_000, budget.OutputTokens(60_000))
	assert.Equal(t, 64_000, budget.OutputTokens(0))
	m := claude()
	m.Settings.Effort = turn.EffortHigh
	assert.Equal(t, 32_000, m.OutputTokens(0))
	assert.Equal(t, 1000, m.OutputTokens(1000), "it includes the thinking")
}
