package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/workflows/turn"
)

// TestWithoutRepliesTheQuestionsAreAskedAsTheyAre checks that a call that is resumed without responses repeats the open
// elicitations unchanged, because its caller may not have asked the user yet.
func TestWithoutRepliesTheQuestionsAreAskedAsTheyAre(t *testing.T) {
	q := turn.Elicitation{Key: "ok", Message: "Really?",
		Schema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`)}
	done := turn.Elicitation{Key: "done", Message: "Before?"}
	kept, err := json.Marshal(continuation{
		Version: 1, Round: 2, State: "s", Elicitations: []turn.Elicitation{done, q},
		Responses: []turn.ElicitationResponse{{Key: "done", Action: turn.ElicitationDecline}},
	})
	require.NoError(t, err)
	_, asked := resume(turn.ToolRequest{Continuation: kept})
	require.NotNil(t, asked, "nothing is sent")
	assert.Equal(t, []turn.Elicitation{q}, asked.Elicitations)
	assert.Equal(t, kept, asked.Continuation, "byte for byte: the journal has it")
}

// FuzzElicitation checks elicitations of any form with any response. The elicitation is bounded and flat, the same form
// always gives the same elicitation, and the server receives an object that fits the form.
func FuzzElicitation(f *testing.F) {
	for _, form := range []string{
		`{"type":"object","properties":{"a":{"type":"string","enum":["x","y"]},"n":{"type":"integer","default":3}},"required":["a"]}`, `{}`, `null`, `[]`, `{"properties":null}`,
		`{"properties":{"a":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}}}}`,
		`{"properties":{"a":{"type":"string","oneOf":[{"const":"x"}]}},"required":"a"}`,
		`{"properties":{"a":{"type":"string","pattern":"("}}}`, `{"properties":{"a":{"type":"string","$ref":"#"}}}`,
		`{"type":["object"]}`, `{"properties":{"a":{"type":"number","default":"x"}}}`,
		`{"properties":{"\u001b":{"type":"string"}}}`,
		`{"required":[1],"properties":{"a":{"type":"boolean","title":"\u001b[2J"}}}`,
	} {
		for _, reply := range []string{`{"a":"x"}`, `{}`, `null`, `{"a":["x"]}`, `{"a":1,"n":1.5}`, ``, `{"a"`} {
			f.Add([]byte(form), []byte(reply))
		}
	}
	f.Fuzz(func(t *testing.T, form, reply []byte) {
		schema, err := flatSchema(form)
		if err != nil {
			require.LessOrEqual(t, len(err.Error()), 600)
			require.True(t, utf8.ValidString(err.Error()))
			return
		}
		var flat struct {
			Properties map[string]map[string]any
		}
		require.NoError(t, json.Unmarshal(schema, &flat))
		require.LessOrEqual(t, len(flat.Properties), maxFields)
		for name, field := range flat.Properties {
			require.Equal(t, printable.Sanitize(name), name)
			require.NotContains(t, field, "properties")
			if title, ok := field["title"].(string); ok {
				require.Equal(t, printable.Line(title, 1000), title)
			}
		}
		again, err := flatSchema(schema)
		require.NoError(t, err)
		require.JSONEq(t, string(schema), string(again))

		q := turn.Elicitation{Key: "q", Message: strings.Repeat("?", 3), Schema: schema}
		out, err := fitToSchema(q, reply)
		if err != nil {
			return
		}
		var object map[string]any
		require.NoError(t, json.Unmarshal(out, &object))
		require.NotNil(t, object)
		twice, err := fitToSchema(q, out)
		require.NoError(t, err, "what fits still fits with its defaults")
		require.JSONEq(t, string(out), string(twice))
	})
}
