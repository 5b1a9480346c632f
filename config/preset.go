package config

import (
	"fmt"
	"slices"
	"strings"
)

// Preset names the limits of turns and inferences that a configuration does not set itself.
type Preset string

// The presets.
const (
	PresetBrief    Preset = "brief"
	PresetStandard Preset = "standard"
	PresetCoding   Preset = "coding"
)

// SetPreset sets runtime.preset and all limits of the preset, which must be one of the constants. Load calls it for
// runtime.preset and keeps the limits that the configuration sets; other programs call it themselves.
func (c *Config) SetPreset(p Preset) {
	c.Runtime.Preset = p
	for _, f := range presetSettings(c) {
		f.setPreset(p)
	}
}

// presetSettings returns the settings whose values a preset gives.
func presetSettings(c *Config) []field {
	return slices.DeleteFunc(settings(c), func(f field) bool { return f.tag.Get("preset") == "" })
}

// setPreset sets the field to its value in a preset: that of the tag preset, or else the default.
func (f field) setPreset(p Preset) {
	text := f.tag.Get("default")
	for value := range strings.SplitSeq(f.tag.Get("preset"), ",") {
		if own, ok := strings.CutPrefix(value, string(p)+"="); ok {
			text = own
		}
	}
	if err := parseInto(f.value, text); err != nil {
		panic(fmt.Sprintf("config: preset %s of %s: %v", p, f.key, err))
	}
}

// applyPreset sets the limits of runtime.preset that no other source sets.
func (l *loader) applyPreset() {
	c := &l.loaded.Config
	source := "preset " + string(c.Runtime.Preset)
	if l.loaded.explicit("runtime.preset") {
		source += " (" + l.loaded.Origin("runtime.preset") + ")"
	}
	for _, f := range presetSettings(c) {
		if l.loaded.explicit(f.key) {
			continue
		}
		f.setPreset(c.Runtime.Preset)
		l.loaded.preset[f.key] = source
	}
}
