package form_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/starter/internal/ui/form"
	"github.com/everturn/everturn/workflows/turn"
)

// everything has a field of each kind, as servers of the protocol's revisions write them.
const everything = `{"type":"object","properties":{
	"name":{"type":"string","title":"Full name","description":"As in the passport","minLength":2,"maxLength":10},
	"mail":{"type":"string","format":"email"},
	"age":{"type":"integer","minimum":0,"maximum":150},
	"share":{"type":"number","default":0.5},
	"sure":{"type":"boolean","default":true},
	"colour":{"type":"string","enum":["red","blue"],"enumNames":["Deep red","Sky blue"]},
	"size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}],"default":"s"},
	"days":{"type":"array","items":{"type":"string","enum":["mon","tue","wed"]},"minItems":1,"maxItems":2},
	"extra":{"type":"object"}
},"required":["name","colour"]}`

func parse(t *testing.T, schema string) form.Form {
	t.Helper()
	f, err := form.Parse(json.RawMessage(schema))
	require.NoError(t, err)
	return f
}

// pairs reads name=value words.
func pairs(t *testing.T, words ...string) []form.Pair {
	t.Helper()
	var out []form.Pair
	for _, w := range words {
		p, err := form.PairOf(w)
		require.NoError(t, err)
		out = append(out, p)
	}
	return out
}

func TestFieldsAreTypedByTheSchema(t *testing.T) {
	f := parse(t, everything)
	for want, words := range map[string][]string{
		`{"name":"Ann","share":0.5,"sure":true,"colour":"red","size":"s"}`: {"name=Ann",
			"colour=red"},
		`{"name":"  = ","share":0.5,"sure":true,"colour":"blue","size":"s"}`: {"name=  = ",
			"colour=2"},
		`{"name":"<&>","mail":"a@b.example","share":0.5,"sure":true,"colour":"blue","size":"s"}`: {"name=<&>",
			"colour=sky BLUE", "mail=a@b.example"},
		`{"name":"Ann","age":42,"share":1e-3,"sure":false,"colour":"red","size":"l"}`: {"name=Ann",
			"colour=RED", "age= +42 ", "share=1e-3", "sure=No", "size=large"},
		`{"name":"Ann","share":0.5,"sure":true,"colour":"red","size":"s","days":["mon","wed"]}`: {"name=Ann",
			"colour=red", "days=mon,3"},
		`{"name":"Ann","share":0.5,"sure":true,"colour":"red","size":"s","days":["mon"]}`: {"name=Ann",
			"colour=red", "days=mon", "days=mon"},
		`{"name":"Ann","share":0.5,"sure":true,"colour":"red","size":"s","extra":{"a":[1]}}`: {"name=Ann",
			"colour=red", `extra={"a": [1]}`},
		`{"name":"Ann","share":0.10000000000000000001,"sure":true,"colour":"red","size":"s"}`: {"name=Ann",
			"colour=red", "share=0.10000000000000000001"},
		`{"name":"\u2028ü\u001b","share":0.5,"sure":true,"colour":"red","size":"s","days":["tue"]}`: {"name=\u2028ü\x1b",
			"colour=red", "days= tue ,"},
	} {
		got, err := f.Fill(pairs(t, words...))
		require.NoError(t, err, words)
		assert.Equal(t, want, string(got))
	}
}

func TestWhatDoesNotFitIsSaidAllAtOnce(t *testing.T) {
	f := parse(t, everything)
	for _, c := range []struct {
		words []string
		says  []string
	}{
		{nil, []string{"name: it is required (text, 2 to 10 characters, required)", "colour: it is required"}},
		{[]string{"name=A", "colour=red"}, []string{"name: \"A\" does not fit: the field takes text, 2 to 10 characters"}},
		{[]string{"name=Ann", "colour=green"}, []string{`colour: "green" is not one of the choices: red, blue`}},
		{[]string{"name=Ann", "colour=3"}, []string{`"3" is not one`}},
		{[]string{"nmae=Ann", "colour=red"},
			[]string{`there is no field "nmae" (did you mean "name"?); name: it is required`}},
		{[]string{"name=Ann", "colour=red", "zzzzzzzzz=1"}, []string{"9 fields (name, mail, age,"}},
		{[]string{"name=Ann", "colour=red", "age=4.5"},
			[]string{"age: 4.5 does not fit: the field takes whole number, 0 to 150"}},
		{[]string{"name=Ann", "colour=red", "age=151"}, []string{"age: 151 does not fit"}},
		{[]string{"name=Ann", "colour=red", "age=many", "share=3,5"},
			[]string{`age: "many" is not a number`, `share: "3,5" is not a number: write it like 3 or 3.5`}},
		{[]string{"name=Ann", "colour=red", "share=NaN"}, []string{"is not a number"}},
		{[]string{"name=Ann", "colour=red", "share=1e999"}, []string{"1e999 does not fit"}},
		{[]string{"name=Ann", "colour=red", "sure=perhaps"}, []string{`sure: "perhaps" is not yes or no`}},
		{[]string{"name=Ann", "name=Bob", "colour=red"}, []string{"name: it is given twice"}},
		{[]string{"name=Ann", "colour=red", "days=mon,tue,wed"},
			[]string{"the field takes some of the choices, 1 to 2 of them"}},
		{[]string{"name=Ann", "colour=red", "days="}, []string{"days: [] does not fit"}},
		{[]string{"name=Ann", "colour=red", "mail=Ann <a@b.example>"}, []string{"the field takes email address"}},
		{[]string{"name=Ann", "colour=red", "extra=hello"}, []string{"is not JSON: write text in double quotes"}},
		{[]string{"name=\xff\xfe", "colour=red"}, []string{"not valid UTF-8"}},
	} {
		_, err := f.Fill(pairs(t, c.words...))
		for _, says := range c.says {
			assert.ErrorContains(t, err, says, c.words)
		}
	}
	_, err := form.PairOf("name")
	assert.ErrorContains(t, err, "write name=value")
}

func TestOneTextAnswersAFormOfOneField(t *testing.T) {
	one := parse(t, `{"properties":{"count":{"type":"integer"}},"required":["count"]}`)
	for text, want := range map[string]string{"3": `{"count":3}`, `{"count":4}`: `{"count":4}`} {
		got, err := one.Read(text)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	_, err := one.Read(`{"count":"4"}`)
	assert.ErrorContains(t, err, `count: "4" does not fit: the field takes whole number`)
	text := parse(t, `{"properties":{"note":{"type":"string"}}}`)
	got, err := text.Read(`{"other":1}`)
	require.NoError(t, err)
	assert.Equal(t, `{"note":"{\"other\":1}"}`, string(got), "a text may look like JSON")
}

func TestAnObjectIsTakenAsItIs(t *testing.T) {
	f := parse(t, everything)
	got, err := f.Read(" { \"colour\": \"red\",\n\"name\": \"Ann\" } ")
	require.NoError(t, err)
	assert.JSONEq(t, `{"name":"Ann","colour":"red"}`, string(got), "without the defaults")
	for text, says := range map[string]string{
		"Ann":                                     "9 fields (name, mail,",
		`{"name":"Ann"}`:                          "colour: it is required",
		`{"name":"Ann","colour":"red","x":1}`:     `there is no field "x"`,
		`{"name":1,"colour":"green"}`:             `name: 1 does not fit: the field takes text, 2 to 10 characters; colour: "green" does not fit`,
		`{"name":"Ann","name":"B","colour":"x"}`:  "9 fields",
		`{"name":"Ann","colour":"red"} trailing`:  "9 fields",
		`{"name":"Ann","colour":"red","days":[]}`: "days: [] does not fit",
	} {
		_, err := f.Read(text)
		assert.ErrorContains(t, err, says, text)
	}
	agree := parse(t, ``)
	_, err = agree.Read("yes")
	assert.ErrorContains(t, err, "the form has no fields")
}

func TestNumbersNameNoChoicesThatAreNumbers(t *testing.T) {
	f := parse(t, `{"properties":{"port":{"type":"string","enum":["2","1"]}}}`)
	got, err := f.Read("1")
	require.NoError(t, err)
	assert.Equal(t, `{"port":"1"}`, string(got))
	assert.Contains(t, strings.Join(f.Lines(), "\n"), "  - 2\n  - 1")
}

func TestSchemasAreBoundedAndCheckedOnlyAsFarAsTheyAreKnown(t *testing.T) {
	for schema, says := range map[string]string{
		`[]`:                             "invalid schema",
		`{"properties":[]}`:              "invalid properties: it is not a JSON object",
		`{"properties":{"a":{},"a":{}}}`: "twice",
		`{"properties":{` + strings.Repeat(`"x":{},`, 8<<10) + `"y":{}}}`: "twice",
		`{"x":"` + strings.Repeat("x", 64<<10) + `"}`:                     "the maximum is 65536",
		many(65):     "65 fields; the maximum is 64",
		options(257): "257 choices; the maximum is 256",
	} {
		_, err := form.Parse(json.RawMessage(schema))
		assert.ErrorContains(t, err, says)
	}
	odd := parse(t,
		`{"properties":{"a":{"type":["string","null"]},"b":true,"c":{"type":"string","default":7},"d":{"type":"string","minLength":"x"}}}`)
	for i, kind := range []form.Kind{form.KindJSON, form.KindJSON, form.KindText, form.KindJSON} {
		assert.Equal(t, kind, odd.Fields[i].Kind, odd.Fields[i].Name)
	}
	assert.Nil(t, odd.Fields[2].Default, "a default that the field would not take is none")
	long := parse(t, `{"properties":{"a":{"type":"string"}}}`)
	_, err := long.Read(strings.Repeat("x", 60<<10))
	assert.ErrorContains(t, err, "the maximum is")
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":{"type":"string"}`, i)
	}
	return `{"properties":{` + b.String()[1:] + `}}`
}

func options(n int) string {
	return `{"properties":{"a":{"type":"string","enum":["` + strings.TrimSuffix(strings.Repeat(`x","`, n), `","`) + `"]}}}`
}

func TestFieldsExplainThemselvesSafely(t *testing.T) {
	assert.Equal(t, `name · Full name (text, 2 to 10 characters, required)
  As in the passport
mail (email address)
age (whole number, 0 to 150)
share (number, default 0.5)
sure (yes or no, default yes)
colour (one of the choices, required)
  1 red · Deep red
  2 blue · Sky blue
size (one of the choices, default s)
  1 s · Small
  2 l · Large
days (some of the choices, 1 to 2 of them)
  1 mon
  2 tue
  3 wed
extra (JSON)`, strings.Join(parse(t, everything).Lines(), "\n"))
	evil := parse(t,
		`{"properties":{"a\u001b[2J":{"type":"string","title":"x\ny","description":"\u202e\u0007","enum":["\u009b31m"]}}}`)
	assert.Equal(t, []string{`a\x1b[2J · x y (one of the choices)`, `  \u202e\x07`, `  1 \u009b31m`}, evil.Lines())
}

func TestAddressesSayWhereTheyLead(t *testing.T) {
	for raw, want := range map[string]form.Address{
		"https://example.org/login?x=1": {URL: "https://example.org/login?x=1", Host: "example.org"},
		"https://bank.example@evil.example/": {URL: "https://bank.example@evil.example/", Host: "evil.example",
			Warnings: []string{"the part before the @ is not the host"}},
		"http://127.0.0.1:8080/": {URL: "http://127.0.0.1:8080/", Host: "127.0.0.1:8080",
			Warnings: []string{"it is not an https address (http)", "the host is an IP address", "the port is unusual"}},
		"https://xn--pypal-4ve.example/": {URL: "https://xn--pypal-4ve.example/", Host: "xn--pypal-4ve.example",
			Warnings: []string{"the host name may contain look-alike characters"}},
		"javascript:alert(1)": {URL: "javascript:alert(1)",
			Warnings: []string{"it is not the address of a web page"}},
		"https://a.example/\u202e\n\x1b[2J": {URL: `https://a.example/\u202e\n\x1b[2J`,
			Warnings: []string{"it is not the address of a web page"}},
	} {
		assert.Equal(t, want, form.AddressOf(raw))
	}
}

func TestAcceptingTakesATextOrFieldsOrNothing(t *testing.T) {
	one := turn.Elicitation{Key: "k", Schema: json.RawMessage(`{"properties":{"n":{"type":"integer","default":3}}}`)}
	for want, accept := range map[string]func() (turn.ElicitationResponse, error){
		`{"n":1}`: func() (turn.ElicitationResponse, error) { return form.Accept(one, "1", nil) },
		`{"n":2}`: func() (turn.ElicitationResponse, error) {
			return form.Accept(one, "", []form.Pair{{Name: "n", Text: "2"}})
		},
		`{"n":3}`: func() (turn.ElicitationResponse, error) { return form.Accept(one, "", nil) },
		``: func() (turn.ElicitationResponse, error) {
			return form.Accept(turn.Elicitation{Key: "k", URL: "https://a.example"}, "", nil)
		},
	} {
		got, err := accept()
		require.NoError(t, err)
		assert.Equal(t, "k", got.Key)
		assert.Equal(t, turn.ElicitationAccept, got.Action)
		assert.Equal(t, want, string(got.Content))
	}
	_, err := form.Accept(turn.Elicitation{URL: "https://a.example"}, "done", nil)
	assert.ErrorContains(t, err, "takes no values: confirm with --accept")
	_, err = form.Accept(turn.Elicitation{Schema: json.RawMessage(`7`)}, "done", nil)
	assert.ErrorContains(t, err, "only be declined")
}
