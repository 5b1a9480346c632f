package form_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/starter/internal/ui/form"
)

// FuzzFill: a server writes the schema and a person the texts. Whatever both say, what is shown is plain text, and an
// answer that is made is a bounded JSON object of the form's own fields that the form itself takes.
func FuzzFill(f *testing.F) {
	for _, text := range []string{"Ann", "1", "yes", "red", `{"name":"Ann","colour":"red"}`, "1e400", "mon,tue", "\xff",
		"\x1b[2J", ""} {
		f.Add([]byte(everything), text, text)
		f.Add([]byte(`{"properties":{"a":{"type":"string"}}}`), text, "")
		f.Add([]byte(`{"properties":{"a":{}}}`), text, text)
		f.Add([]byte(`{"properties":{"a":{"type":"array","items":{"anyOf":[{"const":"1","title":"One"},{"const":"1"}]},"default":["1"]}},"required":["a","b"]}`), text, text)
	}
	f.Fuzz(func(t *testing.T, schema []byte, first, others string) {
		form, err := form.Parse(schema)
		if err != nil {
			return
		}
		requirePlain(t, form.Lines())
		answers := [][]byte{whole(form.Read(first)), whole(form.Fill(pairsOf(form, first, others)))}
		for _, answer := range answers {
			if answer != nil {
				requireTaken(t, form, answer)
			}
		}
	})
}

func whole(b json.RawMessage, err error) []byte {
	if err != nil {
		return nil
	}
	return b
}

// said says one thing to the first field and another to the rest.
func pairsOf(f form.Form, first, others string) (pairs []form.Pair) {
	for i, field := range f.Fields {
		p := form.Pair{Name: field.Name, Text: others}
		if i == 0 {
			p.Text = first
		}
		pairs = append(pairs, p)
	}
	return pairs
}

func requireTaken(t *testing.T, f form.Form, answer []byte) {
	t.Helper()
	require.LessOrEqual(t, len(answer), 64<<10)
	require.True(t, utf8.Valid(answer), "%q", answer)
	var object map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(answer, &object), "%q", answer)
	known := map[string]bool{}
	for _, field := range f.Fields {
		known[field.Name] = true
		require.True(t, !field.Required || object[field.Name] != nil, "%q lacks %q", answer, field.Name)
	}
	for name := range object {
		require.True(t, known[name], "%q is no field", name)
	}
	if len(f.Fields) == 1 && len(object) == 0 {
		return // of a form with one field, {} is that field's text
	}
	again, err := f.Read(string(answer))
	require.NoError(t, err, "%q", answer)
	require.Equal(t, string(answer), string(again))
}

func requirePlain(t *testing.T, lines []string) {
	t.Helper()
	for _, line := range lines {
		bad := strings.IndexFunc(line, func(r rune) bool {
			return unicode.IsControl(r) ||
				unicode.Is(unicode.Bidi_Control, r)
		})
		require.Negative(t, bad, "%q", line)
	}
}
