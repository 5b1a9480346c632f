package tests

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// echoed is the provider's key, with characters that each encoding writes differently. shaped has the form of a key but
// is not configured.
const (
	echoed = `canary/echo+5e1f"09c2~key`
	shaped = "sk-canary0123456789abcdefgh"
)

// TestAKeyThatTheProviderRepeatsIsRedacted runs a provider that puts its key into every part of a completion: raw,
// encoded, and split over deltas at every position. It then searches everything that a turn writes.
func TestAKeyThatTheProviderRepeatsIsRedacted(t *testing.T) {
	t.Parallel()
	answers := echoingAnswers(t)
	var next, refusal atomic.Int32
	refusals := echoingRefusals()
	gate := fakellm.NewGate()
	model := fakellm.Start(t, fakellm.Cases(
		fakellm.When("refuse", fakellm.Func(func(fakellm.Request) fakellm.Reply { return refusals[refusal.Add(1)-1] })),
		fakellm.When("hold",
			fakellm.Always(fakellm.Text("").Pieces("It is ", echoed[:9], echoed[9:], ", and so on", " and on").Hold(5, gate))),
		fakellm.When("answer", fakellm.Func(func(fakellm.Request) fakellm.Reply { return answers[next.Add(1)-1] })),
	))
	h := newHome(t, asking(model)+"max_steps = 60\nmax_tool_calls = 50\nmax_consecutive_errors = 50\nmax_reprompts = "+
		"50\n[policy]\ntaint = \"off\"\nask = [\"local/search_text\"]\n")
	h.environ = append(h.environ, "EVERTURN_LLM_API_KEY="+echoed, "EVERTURN_LLM_RETRY_MAX=0")
	worker := h.worker()
	worker.says("worker polls")

	var said strings.Builder
	start := func(args ...string) *command {
		one := h.starter(args...)
		said.WriteString(one.out.String() + one.err.String())
		return one
	}
	answering := h.begin(nil, "run", "-o", "jsonl", "-s", "answers", "answer")
	require.Eventually(t, func() bool { return strings.Contains(h.starter("list").out.String(), "waiting") }, within,
		200*time.Millisecond)
	asks := start("approvals", "-o", "json").out.String()
	assert.Contains(t, asks, "[redacted]", "what is approved is what is sent")
	start("approve", "answers", "--all", "-y").exits(0)
	answering.wait()
	start("attach", "answers")
	said.WriteString(answering.out.String() + answering.err.String())
	assert.EqualValues(t, len(answers), next.Load(), "all answers were asked for: %s", said.String())
	for range refusals {
		start("run", "-s", "refused", "refuse")
	}
	held := h.begin(nil, "run", "-s", "held", "hold")
	<-gate.Reached()
	start("stop", "held")
	held.wait()
	said.WriteString(held.out.String() + held.err.String())

	sessions := []string{"answers", "refused", "held"}
	for _, s := range sessions {
		for _, args := range [][]string{{"show", s}, {"show", "-o", "json", s}, {"export", s}, {"events", s}} {
			start(args...)
		}
		said.WriteString(historiesText(t, s))
	}
	start("list")
	start("doctor")
	said.WriteString(followed(t, h))
	said.WriteString(worker.out.String() + worker.err.String())
	require.Contains(t, model.Requests()[0].Header.Get("Authorization"), echoed, "the key is in use")
	for name, form := range formsOfKey() {
		assert.False(t, strings.Contains(said.String(), form), "%s is in what is shown, logged or recorded:\n%s", name,
			around(said.String(), form))
		assert.Empty(t, filesWith(t, h.path(".everturn"), form, ""), "%s is in the database", name)
		for _, q := range model.Requests() {
			require.False(t, bytes.Contains(q.Body, []byte(form)), "%s was sent to the model:\n%s", name,
				around(string(q.Body), form))
		}
	}
}

// formsOfKey returns the encodings of echoed, and shaped, which only patterns can recognize.
func formsOfKey() map[string]string {
	quoted, _ := json.Marshal(echoed)
	forms := map[string]string{
		"raw": echoed, "shaped": shaped, "json": string(quoted[1 : len(quoted)-1]), "query": url.QueryEscape(echoed),
		"path": url.PathEscape(echoed), "lower": strings.NewReplacer("%2F", "%2f", "%2B",
			"%2b").Replace(url.QueryEscape(echoed)),
		"hex": hex.EncodeToString([]byte(echoed)),
	}
	for before := range 3 {
		whole := base64.StdEncoding.EncodeToString([]byte("xyz"[:before] + echoed + "!!!"))
		forms[fmt.Sprintf("base64 at %d", before)] = whole[(8*before+5)/6 : 8*(before+len(echoed))/6]
	}
	return forms
}

// echoingAnswers returns a turn's completions that hold the key; the last one is final.
func echoingAnswers(t *testing.T) []fakellm.Reply {
	object := func(path string) string {
		b, err := json.Marshal(map[string]string{"path": path})
		require.NoError(t, err)
		return string(b)
	}
	call := func(arguments string) fakellm.Reply { return fakellm.Call("local_list_files", arguments) }
	escaped := fmt.Sprintf(`{"path":"\u0063%s"}`, strings.ReplaceAll(echoed[1:], `"`, `\u0022`))
	list := []fakellm.Reply{
		fakellm.Call("local_search_text", `{"query":`+object(echoed)[len(`{"path":`):]),
		call(object("x " + echoed)).WithText("calling with " + echoed).Reasoning("I know " + echoed),
		call(escaped), call(object(object(echoed))), call(`{"path":"` + echoed), call(echoed),
		fakellm.Calls(fakellm.ToolCall{ID: echoed, Name: "local_list_files", Arguments: "{}"}),
		fakellm.Calls(fakellm.ToolCall{Name: "tool_" + echoed, Arguments: "{}"}),
		fakellm.Calls(fakellm.ToolCall{Name: "ask_user", Arguments: `{"question":1,"why":"` + shaped + `"}`}),
		call("{}").Finish(echoed), call("{}").Model(echoed),
		fakellm.Raw(echoingEvents()...),
	}
	for _, form := range formsOfKey() {
		list = append(list, call(object("see "+form)))
	}
	pieces := []string{"It is "}
	for _, key := range []string{echoed, shaped} {
		for i := 1; i < len(key); i++ {
			pieces = append(pieces, key[:i], key[i:], " and ")
		}
		for i := range len(key) {
			pieces = append(pieces, key[i:i+1])
		}
		pieces = append(pieces, ". ")
	}
	return append(list, fakellm.Text("").Pieces(pieces...))
}

// echoingEvents returns a completion whose reasoning, arguments and unknown fields hold the key in pieces, and whose
// usage holds it whole.
func echoingEvents() []string {
	event := func(fields map[string]any) string {
		b, _ := json.Marshal(fields) // always marshals
		return "data: " + string(b) + "\n\n"
	}
	delta := func(delta map[string]any) string {
		return event(map[string]any{"system_fingerprint": echoed,
			"choices": []any{map[string]any{"index": 0, "delta": delta}}})
	}
	call := func(id, name, arguments string) map[string]any {
		return map[string]any{"tool_calls": []any{
			map[string]any{"index": 0, "id": id, "function": map[string]any{"name": name, "arguments": arguments}}}}
	}
	var events []string
	for i := range len(echoed) {
		events = append(events, delta(map[string]any{"reasoning_content": echoed[i : i+1]}))
	}
	events = append(events, delta(call("call_raw", "local_list_files", `{"path":"`)))
	quoted, _ := json.Marshal(echoed)
	for _, b := range quoted[1 : len(quoted)-1] {
		events = append(events, delta(call("", "", string(b))))
	}
	events = append(events, delta(call("", "", `"}`)))
	return append(events,
		event(map[string]any{"choices": []any{
			map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": "tool_calls"}}}),
		event(map[string]any{"choices": []any{}, "usage": map[string]any{"prompt_tokens": echoed, "completion_tokens": 1}}),
		"data: [DONE]\n\n")
}

// echoingRefusals returns error replies that hold the key.
func echoingRefusals() []fakellm.Reply {
	all := "Incorrect API key provided"
	for _, form := range formsOfKey() {
		all += ": " + form
	}
	quoted, _ := json.Marshal(echoed)
	return []fakellm.Reply{
		fakellm.Status(401, "invalid_api_key", all),
		fakellm.Status(400, echoed, "no"), fakellm.StatusBody(500, "text/plain", "no "+echoed),
		fakellm.StatusBody(400, "text/plain", `{"detail":[`+string(quoted)),
		fakellm.Raw(`data: {"error":{"message":` + string(quoted) + `,"code":"x"}}` + "\n\n"), fakellm.Raw(echoed + "\n\n"),
		fakellm.StatusBody(302, "text/plain", echoed).Header("Location", "http://"+shaped+".example/"+echoed),
	}
}

// followed returns what a reader of all turns' streams receives, with the pieces of each kind joined.
func followed(t *testing.T, h *home) string {
	t.Helper()
	store, err := sqlite.Open(t.Context(), h.path(".everturn/journal.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	defer store.Close()
	var all strings.Builder
	for _, s := range []string{"answers", "refused", "held"} {
		turns, err := store.Turns(t.Context(), s)
		require.NoError(t, err)
		for _, one := range turns {
			kinds := map[turn.ChunkKind]*strings.Builder{}
			for after := int64(-1); ; {
				chunks, err := store.Chunks(t.Context(), one.ID, after, 1000)
				require.NoError(t, err)
				if len(chunks) == 0 {
					break
				}
				for _, c := range chunks {
					if kinds[c.Kind] == nil {
						kinds[c.Kind] = &strings.Builder{}
					}
					kinds[c.Kind].WriteString(c.Text)
					after = c.Index
				}
			}
			for kind, text := range kinds {
				fmt.Fprintf(&all, "%s of %s: %s\n", kind, s, text)
			}
		}
	}
	assert.Contains(t, all.String(), "It is [redacted] and [redacted] and ")
	return all.String()
}
