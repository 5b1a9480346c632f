package tests

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/servers/npm"
)

// clients runs a script that uses the server as programs do that nobody of Everturn wrote, and returns what each of them
// has got.
func (w *web) clients(script string) map[string]map[string]any {
	w.t.Helper()
	tree := npm.Need(w.t)
	cmd := exec.CommandContext(w.t.Context(), tree.Node, "testdata/clients/"+script, tree.Dir, w.URL+"/v1", w.token)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	require.NoError(w.t, err, failed.String())
	all := map[string]map[string]any{}
	for line := range strings.Lines(string(out)) {
		var got map[string]any
		require.NoError(w.t, json.Unmarshal([]byte(line), &got))
		name, _ := got["client"].(string)
		delete(got, "client")
		all[name] = got
	}
	w.note()
	return all
}

// answers is the script of a model for clients.
func answers() fakellm.Script {
	return fakellm.Cases(
		fakellm.When("As JSON.", fakellm.Text(`{"n":7}`)),
		fakellm.When("Second.", fakellm.Text("To the second.")),
		fakellm.When("First,", fakellm.Text("To the first.")),
		fakellm.When("Weather?", fakellm.Func(func(q fakellm.Request) fakellm.Reply {
			if last := q.Chat.Messages[len(q.Chat.Messages)-1]; last.Role == "tool" {
				return fakellm.Text("It is " + q.Chat.Messages[len(q.Chat.Messages)-2].Content + " and " + last.Content + ".")
			}
			return fakellm.Calls(fakellm.ToolCall{Name: "client_weather", Arguments: `{"city":"Ulm"}`},
				fakellm.ToolCall{Name: "client_weather", Arguments: `{"city":"Bonn"}`})
		})),
		fakellm.When("Touch it.", fakellm.Steps(fakellm.Call("local_touch", `{"text":"x"}`), fakellm.Text("It is touched."))),
	)
}

// What the model of answers says.
const (
	first    = "To the first."
	second   = "To the second."
	weathers = "It is Ulm: 3 degrees and Bonn: 4 degrees."
)

// The newest version of OpenAI's client and one older major version, the AI SDK and LangChain get completions, streams,
// structured output and errors, and each conversation stays in one session.
func TestClientsOfChatCompletions(t *testing.T) {
	t.Parallel()
	e := newEnv(t, answers())
	e.work()
	w := e.web()
	whole := map[string]any{"first": first, "streamed": second, "final": second, "tokens": true,
		"parsed": map[string]any{"n": 7.0}, "refused": []any{404.0, "model_not_found"}, "models": []any{"everturn"},
		"called": weathers}
	assert.Equal(t, map[string]map[string]any{"openai": whole, "openai-6": whole,
		"ai":        {"first": first, "streamed": second, "finish": "stop", "called": weathers},
		"langchain": {"first": first, "streamed": second}}, w.clients("chat.cjs"))
	assert.Len(t, w.sessions(), 7, "a session for each conversation")
}

// The same clients get responses: streams that are read again from any event, in the background, in conversations, with
// approvals, cancelled and deleted.
func TestClientsOfResponses(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	e := newEnv(t, answers(), askToTouch)
	e.work(touching(&effects))
	w := e.web()
	whole := map[string]any{"first": first, "streamed": second, "final": second, "tokens": true, "replayed": true,
		"last": second, "queued": "queued", "background": second, "parsed": map[string]any{"n": 7.0},
		"talk": []any{first, second}, "asked": []any{"local", "touch"}, "before": "completed", "approved": "It is touched.",
		"kinds": []any{"mcp_call", "message"}, "input": "First, openai.", "cancelled": "completed", "gone": 404.0,
		"calls":  2.0,
		"called": weathers}
	older := maps.Clone(whole)
	older["input"] = "First, openai-6."
	assert.Equal(t, map[string]map[string]any{"openai": whole, "openai-6": older,
		"ai":        {"first": first, "streamed": second, "finish": "stop", "called": weathers},
		"langchain": {"first": first, "streamed": second}}, w.clients("responses.cjs"))
	assert.EqualValues(t, 2, effects.Load())
	assert.Len(t, w.sessions(), 6+6+2+1, "a session for each conversation")
}
