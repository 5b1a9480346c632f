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
	for _, secret := range cfg.Secrets() {
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
