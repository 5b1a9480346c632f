package decide

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// elicitation is what a tool's server asks.
func elicitation(schema string) turn.Request {
	return turn.Request{Session: "s", Turn: "t",
		ID: "e2.0.1", Kind: turn.RequestElicitation, Step: 2, Tool: "mcp/git/commit", Call: "2.0",
		Elicitation: &turn.Elicitation{Key: "k", Message: "Who are you?\nquestion q9 of session s",
			Schema: json.RawMessage(schema)}}
}

const twoFields = `{"type":"object","properties":{"name":{"type":"string","title":"Your\u001b name"},"age":{"type":"integer","minimum":0}},"required":["name"]}`

func TestQuestionsOfServersSayWhoAsksAndWhereTheAnswerGoes(t *testing.T) {
	assert.Equal(t, `elicitation e2.0.1 of session s: the server git asks during call 2.0 of mcp/git/commit
  │ Who are you?
  │ question q9 of session s
it asks for:
  │ name · Your\x1b name (text, required)
  │ age (whole number, at least 0)
the server and the journal get your answer: enter no passwords or keys
answer or decline it with
  everturn answer s e2.0.1 --field name=...
  everturn answer s e2.0.1 --decline`, layout{}.WithCommands([]turn.Request{elicitation(twoFields)}))
	url := elicitation("")
	url.Tool, url.Elicitation.URL = "", "http://bank.example@evil.example/\u202e?"+strings.Repeat("long", 30)
	shown := layout{columns: 60}.WithCommands([]turn.Request{url})
	for _, says := range []string{
		"an MCP server asks during call 2.0", `it asks you to open this address on evil.example:`,
		"  │ http://bank.example@evil.example/\\u202e?longlonglonglong\n  │ longlong",
		"warning: it is not an https address", "warning: the part before the @ is not the host",
		"open it only if you trust an MCP server", "everturn answer s e2.0.1 --accept",
	} {
		assert.Contains(t, shown, says)
	}
	assert.Contains(t, layout{}.describe(elicitation("[]")), "can only be declined: reading the form: invalid schema")
	assert.Contains(t, layout{}.WithCommands([]turn.Request{elicitation("[]")}), "everturn answer s e2.0.1 --cancel")
	none := elicitation("")
	none.Elicitation = nil
	assert.Contains(t, layout{}.WithCommands([]turn.Request{none}), "everturn answer s e2.0.1 --accept")
}

func TestNoRowOfAnArgumentPassesForAWordOfTheProgram(t *testing.T) {
	w := wait(turn.RequestApproval, "1.0", strings.Repeat("x", 76)+"approval 2.0 of session s: harmless"+
		strings.Repeat("世", 50))
	lines := strings.Split(layout{columns: 80}.describe(w), "\n")
	for _, l := range lines[3:] {
		assert.True(t, strings.HasPrefix(l, bar), "%q", l)
	}
	assert.Equal(t, bar+strings.Repeat("x", 76), lines[3])
}

func TestCommandLinesAnswerServers(t *testing.T) {
	q := *elicitation(twoFields).Elicitation
	for _, c := range []struct {
		flags answerFlags
		text  string
		want  turn.ElicitationResponse
	}{
		{answerFlags{fields: []string{"name=Ann", "age=42"}}, "", turn.ElicitationResponse{Key: "k",
			Action: turn.ElicitationAccept, Content: json.RawMessage(`{"name":"Ann","age":42}`)}},
		{answerFlags{}, `{"name":"Ann"}`, turn.ElicitationResponse{Key: "k", Action: turn.ElicitationAccept,
			Content: json.RawMessage(`{"name":"Ann"}`)}},
		{answerFlags{decline: true}, "", turn.ElicitationResponse{Key: "k", Action: turn.ElicitationDecline}},
		{answerFlags{cancel: true}, "", turn.ElicitationResponse{Key: "k", Action: turn.ElicitationCancel}},
	} {
		got, err := c.flags.response(q, c.text)
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	for says, f := range map[string]answerFlags{
		"write name=value":                 {fields: []string{"name"}},
		"name: it is required":             {accept: true},
		`there is no field "nam" (did you`: {fields: []string{"nam=Ann"}},
		`age: "old" is not a number`:       {fields: []string{"name=Ann", "age=old"}},
	} {
		_, err := f.response(q, "")
		assert.ErrorContains(t, err, says)
	}
}
