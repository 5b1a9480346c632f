package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// check checks a call's arguments as the worker does before it claims the call.
func check(c *schema.Cache, d turn.Descriptor, arguments json.RawMessage) error {
	known, err := c.Get(d)
	if err != nil {
		return err
	}
	return known.CheckArguments(d.ID, arguments)
}

func TestCheckTellsTheModelWhatIsWrong(t *testing.T) {
	var c schema.Cache
	d := turn.Descriptor{ID: "local/x", Schema: json.RawMessage(
		`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)}
	require.NoError(t, check(&c, d, json.RawMessage(`{"n":1}`)))
	for arguments, want := range map[string]string{
		``:                "missing properties",
		`{}`:              "missing properties",
		`{"n":"1"}`:       "n",
		`{"n":1,"m":2}`:   "m",
		`[1]`:             "not a JSON object",
		`null`:            "not a JSON object",
		`{"n":1} {"n":2}`: "something follows",
		`{"n":`:           "not a JSON object",
		`tell me`:         "not a JSON object",
	} {
		err := check(&c, d, json.RawMessage(arguments))
		if assert.Error(t, err, arguments) {
			assert.Contains(t, err.Error(), "arguments of local/x")
			assert.Contains(t, err.Error(), want)
		}
	}
}

// TestHostileSchemasAreRefusedOrNotValidated covers schemas whose validation would crash the process or never end.
func TestHostileSchemasAreRefusedOrNotValidated(t *testing.T) {
	var c schema.Cache
	for raw, want := range map[string]string{
		`{"type":"object","allOf":[{"$ref":"#"}]}`: "refers to itself without end",
		`{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`: "refers to itself without end",
		`{"type":"object","properties":{"x":{"not":{"$ref":"#/properties/x"}}}}`:                                       "refers to itself without end",
		`{"type":"object","$ref":"#/%70roperties/~01","properties":{"~1":{"$ref":"#/properties/~01"}}}`:                "refers to itself without end",
		`{"type":"object","$dynamicRef":"#"}`:                                                                          "$dynamicRef",
		`{"type":"object","properties":{"a":{"$ref":"#x","$anchor":"x"}}}`:                                             "only references within",
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/nope"}}}`:                                                 "is not there",
		`{"type":"object","properties":` + strings.Repeat(`{"a":{"properties":`, 70) + `{}` + strings.Repeat(`}}`, 70) +
			`}`: "nested more than 64 deep",
	} {
		err := check(&c, turn.Descriptor{ID: "mcp/evil/x", Schema: json.RawMessage(raw)}, json.RawMessage(`{"x":{"a":1}}`))
		assert.ErrorContains(t, err, want, raw)
	}
	doubling := `{"type":"object","allOf":[{"$ref":"#/$defs/0"}],"$defs":{`
	for i := range 60 {
		doubling += fmt.Sprintf(`"%d":{"allOf":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%d"}]},`, i, i+1, i+1)
	}
	doubling += `"60":{}}}`
	assert.NoError(t, check(&c, turn.Descriptor{ID: "mcp/evil/x", Schema: json.RawMessage(doubling)},
		json.RawMessage(`{}`)))
	deep := strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)
	recursive := turn.Descriptor{ID: "mcp/x/tree",
		Schema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false}`)}
	assert.ErrorContains(t, check(&c, recursive, json.RawMessage(deep)), "nested more than 32 deep")
	assert.NoError(t, check(&c, recursive, json.RawMessage(`{"a":{"a":{}}}`)))
	assert.Error(t, check(&c, recursive, json.RawMessage(`{"a":{"a":{"b":1}}}`)))
}

// fileSchema is a schema that fits implements by hand.
const fileSchema = `{"type":"object","additionalProperties":false,"required":["path"],"properties":{"path":{"type":"string","minLength":1},
	"n":{"type":"integer","minimum":0},"mode":{"enum":["r","w"]},"list":{"type":"array","items":{"type":"number"},"maxItems":3}}}`

// FuzzCheck checks any schema, as from a server, with any arguments, as from a model. The check ends, its error is one
// line that a model can read, and accepted arguments are one JSON object. With fileSchema, it accepts exactly the
// arguments that fit.
func FuzzCheck(f *testing.F) {
	for _, raw := range []string{
		fileSchema, `{"type":"object"}`,
		`{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#/$defs/a"}}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"type":"object","patternProperties":{"^(a+)+$":{}}}`,
		`{"type":["object","nothing"]}`, `{"$id":"x","type":"object","$defs":{"a":{"$id":"y"}}}`,
		`{"type":"object","properties":{"\u0000\u001b[2J":{"type":"string","pattern":"("}}}`,
		"{\"type\":\"object\",\"title\":\"\xff\"}",
		`{"type":"object","dependentSchemas":null,"items":[{}],"minProperties":1e400}`,
	} {
		for _, arguments := range []string{`{}`, `{"a":{"a":1}}`, `{"path":"a","n":1.0,"mode":"r","list":[1,2,3]}`} {
			f.Add([]byte(raw), []byte(arguments))
		}
	}
	for _, arguments := range []string{
		``, " \n", `null`, `[]`, `{"path":""}`, `{"path":"\ud800"}`, `{"path":1}`, `{"path":"a","n":-1}`,
		`{"path":"a","n":1.5}`, `{"path":"a","n":1e300}`, `{"path":"a","n":1e999}`, `{"path":"a","n":true}`,
		`{"path":"a","mode":"x"}`,
		`{"path":"a","mode":null}`, `{"path":"a","list":[1,"2"]}`, `{"path":"a","list":[1,2,3,4]}`, `{"path":"a","more":0}`,
		`{"PATH":"a"}`, `{"path":"a"}{}`, `{"path":"a"`, `{"path":"` + "\xff" + `"}`, `{"path":"a","path":1}`,
		"\xef\xbb\xbf{}",
		strings.Repeat(`{"a":`, 33) + `1` + strings.Repeat(`}`, 33),
	} {
		f.Add([]byte(`{"type":"object"}`), []byte(arguments))
	}
	var c schema.Cache
	f.Fuzz(func(t *testing.T, raw, arguments []byte) {
		err := check(&c, turn.Descriptor{ID: "local/x", Schema: raw}, arguments)
		requireAdvice(t, err)
		if err == nil && len(bytes.TrimSpace(arguments)) > 0 {
			var object map[string]any
			require.NoError(t, json.Unmarshal(arguments, &object))
			require.NotNil(t, object)
		}
		known := check(&c, turn.Descriptor{ID: "local/x", Schema: json.RawMessage(fileSchema)}, arguments)
		requireAdvice(t, known)
		require.Equal(t, fits(arguments), known == nil, "%s: %v", arguments, known)
	})
}

// requireAdvice checks that an error names the tool and is one short line of text.
func requireAdvice(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	require.Contains(t, err.Error(), "local/x")
	require.LessOrEqual(t, len(err.Error()), 1000)
	require.True(t, utf8.ValidString(err.Error()))
	require.NotContains(t, err.Error(), "\n")
	require.Equal(t, err.Error(), printable.Sanitize(err.Error()))
}

// fits implements fileSchema by hand.
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

// TestArgumentsThatTakeTooLongToCheckAreRefused checks that the time for checking arguments is bounded. A model can
// send items with equal hashes, which are compared pairwise, and a list of values, each of which is compared with each
// value of an enum.
func TestArgumentsThatTakeTooLongToCheckAreRefused(t *testing.T) {
	var c schema.Cache
	unique := turn.Descriptor{ID: "mcp/x/set",
		Schema: json.RawMessage(`{"type":"object","properties":{"l":{"type":"array","uniqueItems":true}}}`)}
	words := func(n int) json.RawMessage {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,["%s","%s","%s"]`, strings.Repeat("a", i%100), strings.Repeat("a", i/100),
				strings.Repeat("a", 1000-i%100-i/100))
		}
		return json.RawMessage(`{"l":[` + b.String()[1:] + `]}`)
	}
	require.NoError(t, check(&c, unique, words(100)))
	assert.ErrorContains(t, check(&c, unique, words(5000)), "too many to be checked")

	choice := turn.Descriptor{ID: "mcp/x/choice", Schema: json.RawMessage(
		`{"type":"object","properties":{"l":{"type":"array","items":{"enum":[0` + strings.Repeat(",0", 5000) + `]}}}}`)}
	ones := func(n int) json.RawMessage { return json.RawMessage(`{"l":[0` + strings.Repeat(",0", n) + `]}`) }
	require.NoError(t, check(&c, choice, ones(100)))
	assert.ErrorContains(t, check(&c, choice, ones(50_000)), "too many to be checked")
}

// TestPatternsAreCountedBeforeTheyAreCompiled checks that patterns are bounded before they are compiled: a regular
// expression of a few bytes may compile to millions of instructions, and matching may take as many steps for each byte.
func TestPatternsAreCountedBeforeTheyAreCompiled(t *testing.T) {
	var c schema.Cache
	large := strings.Repeat("[^z]{0,1000}", 10) + "z"
	several := `{"type":"object","properties":{"v":{"type":"string"}`
	for i := range 4 {
		several += fmt.Sprintf(`,"p%d":{"type":"string","pattern":"[a-z]{1,900}[0-9]{1,900}"}`, i)
	}
	for raw, want := range map[string]string{
		`{"type":"object","properties":{"v":{"type":"string","pattern":"` + large +
			`"}}}`: "compiles to more than 4000 instructions",
		`{"type":"object","patternProperties":{"` + large +
			`":{}}}`: "compiles to more than 4000 instructions",
		`{"type":"object","$defs":{"a":{"items":[{"pattern":"` + large +
			`"}]}}}`: "compiles to more than 4000 instructions",
		`{"type":"object","properties":{"v":{"Pattern":"` + large +
			`"}}}`: `JSON Schema spells it "pattern"`,
		`{"type":"object","properties":{"v":{"pattern":"` + strings.Repeat("|", 5000) + `"}}}`: "the maximum is 4096",
		several + `}}`: "the patterns of its schema compile to more than 10000 instructions",
	} {
		err := check(&c, turn.Descriptor{ID: "mcp/evil/x", Schema: json.RawMessage(raw)}, json.RawMessage(`{}`))
		assert.ErrorContains(t, err, want)
	}
}

func TestTextTimesPatternsIsBounded(t *testing.T) {
	var c schema.Cache
	raw := json.RawMessage(
		`{"type":"object","properties":{"v":{"type":"string","pattern":"^[^z]{0,900}$"}},"patternProperties":{"^[a-y]{1,900}$":{}}}`)
	tool := turn.Descriptor{ID: "mcp/x/y", Schema: raw}
	text := func(n int) map[string]any { return map[string]any{"v": strings.Repeat("a", n)} }
	key := func(n int) map[string]any { return map[string]any{strings.Repeat("a", n): 1.0} }
	arguments := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		return b
	}
	require.NoError(t, check(&c, tool, arguments(text(800))))
	assert.ErrorContains(t, check(&c, tool, arguments(text(10_000))), "v", "it does not match")
	for _, v := range []any{text(1 << 20), key(1 << 20)} {
		assert.ErrorContains(t, check(&c, tool, arguments(v)), "too many to be checked")
	}
	plain := turn.Descriptor{ID: "mcp/x/z",
		Schema: json.RawMessage(`{"type":"object","properties":{"v":{"type":"string","pattern":"^[a-z]+$"}}}`)}
	assert.NoError(t, check(&c, plain, arguments(text(1<<20))), "an ordinary pattern checks a long text")
}
