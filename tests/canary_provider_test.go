package tests

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// echoedIn are events of a call, for each wire API: in each, another field that goes back to the provider has its key.
var echoedIn = map[turn.API]map[string][]string{
	turn.APIChat: {
		"reasoning_content": {`{"choices":[{"delta":{"reasoning_content":"can"}}]}`,
			`{"choices":[{"delta":{"reasoning_content":"REST"}}]}`},
		"reasoning_details": {`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"KEY"}]}}]}`},
		"thought_signature": {`{"choices":[{"delta":{"tool_calls":[{"index":0,"extra_content":{"google":{` +
			`"thought_signature":"KEY"}}}]}}]}`},
	},
	turn.APIMessages: {
		"thinking":  {block(`{"type":"thinking","thinking":"KEY","signature":"s"}`)},
		"signature": {block(`{"type":"thinking","thinking":"t","signature":"KEY"}`)},
		"signature_delta": {`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"can"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"REST"}}`,
			`{"type":"content_block_stop","index":0}`},
		"data": {block(`{"type":"redacted_thinking","data":"KEY"}`)},
	},
	turn.APIResponses: {
		"id":      {output(`{"type":"reasoning","id":"KEY","summary":[],"encrypted_content":"e"}`)},
		"summary": {output(`{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"KEY"}]}`)},
		"summary_parts": {output(`{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"can"},` +
			`{"type":"summary_text","text":"REST"}]}`)},
		"encrypted_content": {output(`{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"KEY"}`)},
		"message_id":        {output(`{"type":"message","id":"KEY","content":[{"type":"output_text","text":"Hm."}]}`)},
	},
}

func block(block string) string {
	return `{"type":"content_block_start","index":0,"content_block":` + block + "}\n\ndata: " +
		`{"type":"content_block_stop","index":0}`
}

func output(item string) string {
	return `{"type":"response.output_item.done","output_index":0,"item":` + item + `}`
}

// callOf are the events of a call that follow, and end the answer.
var callOf = map[turn.API][]string{
	turn.APIChat: {`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"local_list_files",` +
		`"arguments":"{\"path\":\".\"}"}}]},"finish_reason":"tool_calls"}]}`},
	turn.APIMessages: {`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c",` +
		`"name":"local_list_files","input":{"path":"."}}}`, `{"type":"content_block_stop","index":1}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`},
	turn.APIResponses: {`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc",` +
		`"call_id":"c","name":"local_list_files","arguments":"{\"path\":\".\"}"}}`, `{"type":"response.completed","response":{"status":"completed"}}`},
}

// TestNoKeyOfAProviderStaysInItsItems runs turns with providers that repeat their key in what they want back with a
// message. The key is in nothing that is stored, shown, exported, taped, logged or sent, and the next request is one
// that the provider accepts.
func TestNoKeyOfAProviderStaysInItsItems(t *testing.T) {
	t.Parallel()
	for api, fields := range echoedIn {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			key := canary("provider_" + string(api))
			m := fakellm.Start(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply {
				for field, events := range fields {
					if r.Step == 0 && strings.HasSuffix(r.Chat.Asked(), "."+field) {
						return echoing(key, append(events, callOf[api]...))
					}
				}
				return fakellm.Text("Done.")
			}))
			h := newUserFolder(t, fmt.Sprintf("[llm]\nprovider = \"auto\"\nmodel = \"mine:thinker\"\n[runtime]\n"+
				"[[providers]]\nid = \"mine\"\napi = %q\nbase_url = %q\napi_key = %q\n", api, m.URL(), key))
			worker := h.worker()
			worker.says("worker polls")
			var output strings.Builder
			for field := range fields {
				session := string(api) + "-" + field
				for _, args := range [][]string{{"run", "-o", "jsonl", "-s", session, "List." + field},
					{"run", "-s", session, "And now?"}, {"show", "-o", "json", session}, {"export", session},
					{"tape", "from", session, "tape-" + field}} {
					one := h.everturn(args...).exits(0)
					output.WriteString(one.out.String() + one.err.String())
				}
				output.WriteString(historiesText(t, session))
			}
			worker.end()
			output.WriteString(worker.out.String() + worker.err.String())
			require.Len(t, m.Requests(), 3*len(fields))
			for _, r := range m.Requests() {
				assert.Contains(t, fmt.Sprint(r.Header), key, "the key is in use")
				assert.False(t, bytes.Contains(r.Body, []byte(key)), around(string(r.Body), key))
			}
			for _, part := range []string{key, strings.TrimPrefix(key, "can")} {
				assert.NotContains(t, output.String(), part, around(output.String(), part))
				assert.Empty(t, filesWith(t, h.dir, part, "agent.toml"))
			}
		})
	}
}

// echoing returns a stream of events with the key in place of KEY, and its end in place of REST.
func echoing(key string, events []string) fakellm.Reply {
	var pieces []string
	for _, e := range events {
		e = strings.ReplaceAll(e, "REST", strings.TrimPrefix(key, "can"))
		pieces = append(pieces, "data: "+strings.ReplaceAll(e, "KEY", key)+"\n\n")
	}
	return fakellm.Raw(pieces...)
}
