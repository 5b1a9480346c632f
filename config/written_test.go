package config

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestChangesShowsEverySetting sets every setting of Config. Changes must show each value, except for the secrets in
// the list hidden, of which it returns a hash. A new Secret that decides what runs or where something is sent needs the
// tag shown="written"; another one belongs in the list.
func TestChangesShowsEverySetting(t *testing.T) {
	hidden := []string{"llm.api_key", "providers[x].api_key", "providers[x].headers.x", "encryption.keys", "codec_server.token",
		"mcp.servers[x].headers.x", "mcp.servers[x].oauth.client_secret"}
	var want []string
	var fill func(key string, v reflect.Value)
	fill = func(key string, v reflect.Value) {
		switch kind := v.Kind(); {
		case kind == reflect.Struct:
			for _, m := range (field{value: v}).members() {
				fill(join(key, m.name), m.value)
			}
		case kind == reflect.Map:
			entry := newElement(v.Type())
			fill(key+".x", entry)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("x"), entry)
		case kind == reflect.Slice && table(v.Type()):
			v.Set(reflect.Append(v, newElement(v.Type())))
			name := "0"
			for _, id := range []string{"id", "name", "path"} {
				if _, ok := (field{value: v.Index(0)}).member(id); ok {
					name = "x"
				}
			}
			fill(key+"["+name+"]", v.Index(0))
		default:
			text := "x"
			if isBool := v.Kind() == reflect.Bool; isBool || v.Type() == reflect.TypeFor[*bool]() {
				text = fmt.Sprint(!isBool || !v.Bool())
			} else if v.Type() == durationType || v.Type() == reflect.PointerTo(durationType) {
				text = "7m"
			} else if kind != reflect.String && kind != reflect.Slice {
				text = "7"
			}
			require.NoError(t, parseInto(v, text), key)
			shown, _ := plain(v)
			if v.Type() == secretType {
				shown = v.String()
			}
			want = append(want, key+" = "+literal(shown))
		}
	}
	l := newLoader(nil).loaded
	fill("", reflect.ValueOf(&l.Config).Elem())

	lines, hashes := l.Changes()
	for _, key := range hidden {
		assert.NotEmpty(t, hashes[key], key)
		lines = append(lines, key+" = 'x'")
		want = append(want, key+" = 'set'")
	}
	assert.Len(t, hashes, len(hidden))
	assert.ElementsMatch(t, want, lines)
}

func TestChangesShowsReferencesWithoutTheirDefaults(t *testing.T) {
	l, err := Written("agent.toml", []byte("[llm]\napi_key = \"sk-canary ${KEY:-sk-canary} ${file:/x:-y}\"\n"))
	require.NoError(t, err)
	lines, _ := l.Changes()
	assert.Equal(t, []string{"llm.api_key = 'set' with ${KEY:-hidden}, ${file:/x:-y}"}, lines)
}
