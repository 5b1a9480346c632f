package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// TestPresets checks the limits of each preset, as a file and as a program set it.
func TestPresets(t *testing.T) {
	for preset, want := range map[Preset]Config{
		PresetBrief: {Runtime: Runtime{MaxSteps: 12, MaxToolCalls: 8, TurnTimeout: 90 * time.Second},
			LLM: LLM{IdleTimeout: time.Minute}},
		PresetStandard: {Runtime: Runtime{MaxSteps: 50, MaxToolCalls: 100, TurnTimeout: 30 * time.Minute},
			LLM: LLM{IdleTimeout: 5 * time.Minute}},
		PresetCoding: {Runtime: Runtime{MaxSteps: 250, MaxToolCalls: 500, TurnTimeout: 4 * time.Hour},
			LLM: LLM{IdleTimeout: 5 * time.Minute}},
	} {
		want.Runtime.Preset = preset
		loaded := load(t, "[runtime]\npreset = \""+string(preset)+"\"\n")
		byProgram := Default()
		byProgram.SetPreset(PresetBrief)
		byProgram.SetPreset(preset)
		for _, c := range []Config{loaded.Config, byProgram} {
			got := Config{Runtime: Runtime{Preset: c.Runtime.Preset, MaxSteps: c.Runtime.MaxSteps,
				MaxToolCalls: c.Runtime.MaxToolCalls, TurnTimeout: c.Runtime.TurnTimeout},
				LLM: LLM{IdleTimeout: c.LLM.IdleTimeout}}
			assert.Equal(t, want, got, "%s", preset)
		}
		assert.Equal(t, "preset "+string(preset)+" ("+loaded.Path+":2)", loaded.Origin("runtime.max_steps"))
	}
	assert.Equal(t, PresetStandard, Default().Runtime.Preset)
	defaults, r := turn.DefaultLimits(), Default().Runtime
	assert.Equal(t, []any{defaults.MaxSteps, defaults.MaxToolCalls, defaults.TurnTimeout},
		[]any{r.MaxSteps, r.MaxToolCalls, r.TurnTimeout}, "programs without agent.toml have the same limits")
	assert.Equal(t, "preset standard", load(t, "").Origin("llm.idle_timeout"))
}

// TestExplicitLimitsOverrideThePreset sets limits in the file, the environment and the command line.
func TestExplicitLimitsOverrideThePreset(t *testing.T) {
	loaded, err := Load(LoadOptions{
		Path:      write(t, "[runtime]\nmax_steps = 7\n"),
		Environ:   []string{"EVERTURN_RUNTIME_PRESET=coding", "EVERTURN_RUNTIME_MAX_TOOL_CALLS=9"},
		Overrides: map[string]string{"llm.idle_timeout": "1m"},
	})
	require.NoError(t, err)
	r, l := loaded.Config.Runtime, loaded.Config.LLM
	assert.Equal(t, 7, r.MaxSteps)
	assert.Equal(t, 9, r.MaxToolCalls)
	assert.Equal(t, 4*time.Hour, r.TurnTimeout)
	assert.Equal(t, time.Minute, l.IdleTimeout)
	assert.Equal(t, loaded.Path+":2", loaded.Origin("runtime.max_steps"))
	assert.Equal(t, "preset coding (environment EVERTURN_RUNTIME_PRESET)", loaded.Origin("runtime.turn_timeout"))
	assert.Equal(t, "command line (llm.idle_timeout)", loaded.Origin("llm.idle_timeout"))
}
