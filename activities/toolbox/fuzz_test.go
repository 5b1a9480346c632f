package toolbox_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/workflows/turn"
)

// fileSchema is a schema whose meaning fits spells out.
const fileSchema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{"path":{"type":"string","minLength":1},
	"n":{"type":"integer","minimum":0},"mode":{"enum":["r","w"]},"list":{"type":"array","items":{"type":"number"},"maxItems":3}}}`

// FuzzCheck: a schema comes from a server and arguments from a model. Whatever both are, checking ends, its error is a
// line that a model can read, and what is let through is one JSON object; against a schema that we know, exactly what
// fits is let through.
func FuzzCheck(f *testing.F) {
	for _, schema := range []string{
		fileSchema, `{"type":"object"}`, `{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#/$defs/a"}}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"type":"object","patternProperties":{"^(a+)+$":{}}}`, `{"type":["object","nothing"]}`, `{"$id":"x","type":"object","$defs":{"a":{"$id":"y"}}}`,
		`{"type":"object","properties":{"\u0000\u001b[2J":{"type":"string","pattern":"("}}}`, "{\"type\":\"object\",\"title\":\"\xff\"}", `{"type":"object","dependentSchemas":null,"items":[{}],"minProperties":1e400}`,
	} {
		for _, arguments := range []string{`{}`, `{"a":{"a":1}}`, `{"path":"a","n":1.0,"mode":"r","list":[1,2,3]}`} {
			f.Add([]byte(schema), []byte(arguments))
		}
	}
	for _, arguments := range []string{
		``, " \n", `null`, `[]`, `{"path":""}`, `{"path":"\ud800"}`, `{"path":1}`, `{"path":"a","n":-1}`, `{"path":"a","n":1.5}`, `{"path":"a","n":1e300}`, `{"path":"a","n":1e999}`, `{"path":"a","n":true}`, `{"path":"a","mode":"x"}`,
		`{"path":"a","mode":null}`, `{"path":"a","list":[1,"2"]}`, `{"path":"a","list":[1,2,3,4]}`, `{"path":"a","more":0}`, `{"PATH":"a"}`, `{"path":"a"}{}`, `{"path":"a"`, `{"path":"` + "\xff" + `"}`, `{"path":"a","path":1}`, "\xef\xbb\xbf{}",
		strings.Repeat(`{"a":`, 33) + `1` + strings.Repeat(`}`, 33),
	} {
		f.Add([]byte(`{"type":"object"}`), []byte(arguments))
	}
	h, err := toolbox.New(toolbox.Options{}, nil)
	require.NoError(f, err)
	f.Cleanup(func() { _ = h.Close() })
	f.Fuzz(func(t *testing.T, schema, arguments []byte) {
		err := h.Check(turn.Descriptor{ID: "local/x", Schema: schema}, arguments)
		requireAdvice(t, err)
		if err == nil && len(bytes.TrimSpace(arguments)) > 0 {
			var object map[string]any
			require.NoError(t, json.Unmarshal(arguments, &object))
			require.NotNil(t, object)
		}
		known := h.Check(turn.Descriptor{ID: "local/x", Schema: json.RawMessage(fileSchema)}, arguments)
		requireAdvice(t, known)
		require.Equal(t, fits(arguments), known == nil, "%s: %v", arguments, known)
	})
}

// requireAdvice: an error names the tool and is one short line of text.
func requireAdvice(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	require.Contains(t, err.Error(), "local/x")
	require.LessOrEqual(t, len(err.Error()), 1000)
	require.True(t, utf8.ValidString(err.Error()))
	require.NotContains(t, err.Error(), "\n")
	require.Equal(t, err.Error(), toolbox.Sanitize(err.Error()))
}

// fits says by hand what fileSchema says.
func fits(arguments []byte) bool {
	var object map[string]any
	if json.Unmarshal(arguments, &object) != nil {
		return false
	}
	path, ok := object["path"].(string)
	ok = ok && path != ""
	for key, v := range object {
		switch key {
		case "path":
		case "n":
			n, is := v.(float64)
			ok = ok && is && n >= 0 && n == math.Trunc(n)
		case "mode":
			ok = ok && (v == "r" || v == "w")
		case "list":
			list, is := v.([]any)
			ok = ok && is && len(list) <= 3
			for _, e := range list {
				_, is := e.(float64)
				ok = ok && is
			}
		default:
			ok = false
		}
	}
	return ok
}

// FuzzSanitize: what is left is text that moves nothing, cleaning it again changes nothing, and text that was clean is
// not touched; a cut keeps within its limit and on whole characters.
func FuzzSanitize(f *testing.F) {
	for _, s := range []string{
		"\x1b[31mred\x1b[0m \xff \u009b", "plain\ttext\n", "\x1b]8;;http://e\x1b\\link", "\x1b]never ends", "\x1b\x1b[31mx", "\x1b[\x1b[2J2J", "\r\r\n\r", "\u009d0;t\u009cx", "\x1bP" + strings.Repeat("a", 5000), "\xc2", "e\u0301\u202e",
	} {
		f.Add(s, 100)
		f.Add(strings.Repeat(s, 60), 500)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		clean := toolbox.Sanitize(s)
		assert.True(t, utf8.ValidString(clean))
		control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }
		assert.Negative(t, strings.IndexFunc(clean, control), "%q", clean)
		assert.Equal(t, clean, toolbox.Sanitize(clean))
		if utf8.ValidString(s) && strings.IndexFunc(s, control) < 0 {
			assert.Equal(t, s, clean)
		}
		limit %= 1 << 12
		cut, was := toolbox.Cut(clean, limit)
		assert.LessOrEqual(t, len(cut), max(limit, 0))
		assert.True(t, utf8.ValidString(cut))
		assert.Equal(t, len(clean) > limit, was)
		if was && limit >= 200 {
			assert.True(t, strings.HasPrefix(clean, cut[:limit/4-3]), "a cut keeps the head")
		}
	})
}
