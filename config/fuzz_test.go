package config

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// FuzzLoad: whatever the file holds, Load either refuses it with an *Error that names the file, or gives a valid
// configuration that can be shown.
func FuzzLoad(f *testing.F) {
	f.Add(Example())
	f.Add(commented.ReplaceAllString(Example(), "$1"))
	f.Add(secretive)
	f.Add("[runtime]\nmax_steps = \"${A:-${B}}\"\n[[mcp.servers]]\n[[mcp.servers.tools]]\n")
	f.Add("mcp.servers = [{id='a'}, {id='a', tools.x.quick = true}, [[]], 1979-05-27]\r\n")
	f.Add(strings.Repeat("[", 10_000))
	f.Add("\"\\u0000\" = 1\n'a.b'.c = 1\n\"\" = { \"\" = inf }\n")
	f.Fuzz(func(t *testing.T, text string) {
		loaded, err := Load(LoadOptions{Path: write(t, text), Environ: []string{"A=a", "MY_PROVIDER_KEY=k", "MY_TEMPORAL_KEY=k"}})
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
