package turn

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSensitiveArgumentsAreBlanked(t *testing.T) {
	const b = `"[blanked]"`
	for arguments, want := range map[string]string{
		`{"user":"ann","password":"hunter2"}`: `{"user":"ann","password":` + b + `}`,
		`{ "ssn" : 123456789 , "n":1}`:        `{ "ssn" : ` + b + ` , "n":1}`,
		`{"a":[{"apiKey":"x","b":{"Client-Secret":{"x":[1]}}}],"c":"}"}`: `{"a":[{"apiKey":` + b +
			`,"b":{"Client-Secret":` + b + `}}],"c":"}"}`,
		`{"show_password":true,"password":null,"token":"t"}`:   `{"show_password":true,"password":null,"token":` + b + `}`,
		`{"p\u0061ssword":"x"}`:                                `{"p\u0061ssword":` + b + `}`,
		`{"word":"x","key":"password","list":["password"]}`:    `{"word":"x","key":"password","list":["password"]}`,
		`{"max_tokens":5,"page_token":"x","path":"secret.md"}`: `{"max_tokens":5,"page_token":"x","path":"secret.md"}`,
		`{"pin":"1234","deep":{"pin":"5"}}`:                    `{"pin":` + b + `,"deep":{"pin":` + b + `}}`,
		`{"password":"x"`:                                      b, `{"path":"x"`: `{"path":"x"`, "": "", `"password"`: `"password"`,
		`{"password":"a","password":"b"}`: `{"password":` + b + `,"password":` + b + `}`,
	} {
		assert.Equal(t, want, BlankArguments(arguments, []string{"pin"}), arguments)
	}
}

func TestASchemaSaysWhatIsSensitive(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"pin":{"type":"string","format":"password"},
		"path":{"type":"string"},"login":{"type":"object","properties":{"key":{"writeOnly":true},"open":{"writeOnly":false}}},
		"all":{"type":"array","items":{"properties":{"pin":{"format":"password"}}}}}}`)
	assert.Equal(t, []string{"key", "pin"}, Sensitive(schema))
	assert.Equal(t, []string{"key", "pin"}, Descriptor{Schema: schema}.Pinned().Sensitive)
	assert.Empty(t, Sensitive(json.RawMessage(`{"properties":{"password":{"type":"string"}}}`)))
	assert.Empty(t, Sensitive(json.RawMessage(`{"writeOnly":`)))
}

func FuzzBlankArguments(f *testing.F) {
	for _, seed := range []string{`{"password":"canary"}`, `[{"x":{"ssn":"canary"}}]`, `{"a":"canary"}`, `{"token":"canary"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		out := BlankArguments(arguments, []string{"pin"})
		require.Equal(t, out, BlankArguments(out, []string{"pin"}), "twice is once")
		if json.Valid([]byte(arguments)) {
			require.True(t, json.Valid([]byte(out)), out)
		}
		var object map[string]string
		if json.Unmarshal([]byte(arguments), &object) == nil && len(object["password"]) > 20 {
			require.False(t, strings.Contains(out, object["password"]) && strings.Count(arguments, object["password"]) == 1, out)
		}
	})
}
