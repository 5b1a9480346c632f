package config

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// canary is the value of environment variables: not a number, a duration or a URL.
const canary = "canary-7b41"

// FuzzLoad checks that Load either returns an *Error whose text has no terminal control sequences, or a valid
// configuration that can be shown. The output never contains values of the environment.
func FuzzLoad(f *testing.F) {
	f.Add(Example())
	f.Add(commented.ReplaceAllString(Example(), "$1"))
	f.Add(secretive)
	f.Add("[runtime]\nmax_steps = \"${A:-${B}}\"\n[[mcp.servers]]\n[[mcp.servers.tools]]\n")
	f.Add("mcp.servers = [{id='a'}, {id='a', tools.x.local_activity = true}, [[]], 1979-05-27]\r\n")
	f.Add(strings.Repeat("[", 10_000))
	f.Add("\"\\u0000\" = 1\n'a.b'.c = 1\n\"\" = { \"\" = inf }\n")
	whole := strings.Split(commented.ReplaceAllString(Example(), "$1"), "\n")
	for i, line := range whole { // the secret in every position
		if key, _, ok := strings.Cut(line, " = "); ok {
			one := slices.Clone(whole)
			one[i] = key + ` = "${A}"`
			f.Add(strings.Join(one, "\n"))
		}
	}
	environ := []string{"A=" + canary, "MY_PROVIDER_KEY=" + canary, "MY_TEMPORAL_KEY=" + canary}
	f.Fuzz(func(t *testing.T, text string) {
		loaded, err := Load(LoadOptions{Path: write(t, text), Environ: environ})
		requireSecret(t, text, loaded, err)
		var e *Error
		switch {
		case err != nil && !errors.As(err, &e):
			t.Fatalf("not an *Error: %v", err)
		case err != nil:
			if len(e.Problems) == 0 || e.Error() == "" || errors.Is(err, ErrInvalid) == errors.Is(err, ErrCredentials) {
				t.Fatalf("an error that says nothing: %#v", e)
			}
		default:
			if err := errors.Join(loaded.Config.Validate(), loaded.Show(io.Discard, true)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// requireSecret checks that no output contains the canary, and that the output is text.
func requireSecret(t *testing.T, text string, loaded *Loaded, err error) {
	t.Helper()
	var b strings.Builder
	if err != nil {
		// Errors quote an invalid word or number wherever it comes from, because no secret belongs in such a setting.
		b.WriteString(strings.ReplaceAll(err.Error(), `is "`+canary+`"; it must be`, ""))
	} else {
		_ = loaded.Show(&b, true) // other tests check its error
	}
	if strings.Contains(b.String(), canary) && !strings.Contains(text, canary) {
		t.Fatalf("what the environment holds is shown:\n%s", b.String())
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' &&
			r != '\t'
	}); i >= 0 {
		t.Fatalf("a control character at %d of %q", i, b.String())
	}
}
