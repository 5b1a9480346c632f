package turn_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// separators matches what separates, quotes, escapes or encodes values for some reader: all ASCII characters except
// those that URLs and email addresses need.
var separators = regexp.MustCompile(`[^A-Za-z0-9._/@:?=&~-]`)

// FuzzCanonicalValues checks that a rule allows only single values in canonical form, whatever its pattern is, and that
// a pattern without wildcards allows only itself.
func FuzzCanonicalValues(f *testing.F) {
	for _, seed := range [][2]string{
		{"*@corp.com", "attacker@evil.com, a@corp.com"}, {"*@corp.com", "a@corp.com"}, {"1000", "+1000"}, {"1000", "0x3e8"},
		{"0", "-0"}, {"10.0.0.*", "::10.0.0.1"},
		{"https://*.corp.com/**", "https://a.corp.com/x?y=1"}, {"**", "a/b"}, {"~/**", "~/a"}, {"*", "ａ"},
		{"[!-~]*", "a;b"}, {"?", "\n"}, {`\\*`, `*`}, {"//*", "//a"}, {"-*", "-r"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		value = strings.ToValidUTF8(value, "\ufffd")
		list, err := json.Marshal(map[string][]string{"path": {value, value}})
		require.NoError(t, err)
		alone := permitted(confined(pattern), path(value))
		require.Equal(t, alone, permitted(confined(pattern), string(list)), "a list of it is as good as itself")
		if alone != turn.Allow {
			return
		}
		require.NotRegexp(t, separators, value, "%q allows it", pattern)
		require.NotContains(t, strings.Split(value, "/"), "..", "%q allows it", pattern)
		require.LessOrEqual(t, strings.Count(value, "@"), 1, "%q allows it", pattern)
		if !strings.ContainsAny(pattern, `*?[\`) {
			require.Equal(t, pattern, value)
		}
		require.Equal(t, turn.Deny, permitted(barred(pattern), path(value)), "%q", pattern)
	})
}
