package engine

import (
	"regexp"
	"strings"

	"github.com/everturn/everturn/config"
)

// redacted stands where a secret stood.
const redacted = "[redacted]"

// minSecret is the shortest value that is taken for a secret, in bytes: shorter ones would blank ordinary words.
const minSecret = 8

// newRedactor takes the configuration's own secrets, and what its patterns match, out of text. The patterns were
// validated when the configuration was loaded.
func newRedactor(cfg config.Config) func(string) string {
	var pairs []string
	for _, secret := range secrets(cfg) {
		if len(secret) >= minSecret {
			pairs = append(pairs, secret, redacted)
		}
	}
	exact := strings.NewReplacer(pairs...)
	patterns := make([]*regexp.Regexp, 0, len(cfg.Runtime.Redact))
	for _, p := range cfg.Runtime.Redact {
		patterns = append(patterns, regexp.MustCompile(p))
	}
	return func(s string) string {
		s = exact.Replace(s)
		for _, p := range patterns {
			s = p.ReplaceAllString(s, redacted)
		}
		return s
	}
}

// secretName tells a variable that holds a secret from one that holds, say, a path.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|auth|credential`)

// secrets are the values that the configuration was given to keep: keys, headers, and variables whose names say so.
func secrets(cfg config.Config) []string {
	out := []string{cfg.LLM.APIKey.Reveal(), cfg.Temporal.APIKey.Reveal()}
	for _, s := range cfg.MCP.Servers {
		out = append(out, s.OAuth.ClientSecret.Reveal())
		for _, header := range s.Headers {
			out = append(out, header.Reveal())
		}
		for name, value := range s.Env {
			if secretName.MatchString(name) {
				out = append(out, value.Reveal())
			}
		}
	}
	return out
}
