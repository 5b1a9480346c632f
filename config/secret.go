package config

import "log/slog"

// Secret is a string that prints as "set" or "unset" wherever it is formatted, logged or marshalled to JSON.
type Secret string

// Reveal returns the secret itself, for the code that sends it.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return "unset"
	}
	return "set"
}

// GoString keeps the secret out of %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps the secret out of JSON. go-toml does not call it: write TOML with Loaded.Show.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps the secret out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
