package fakellm

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ToolCall is a native tool call of a reply. An empty ID is replaced by one that names the step ("call_s2_0").
type ToolCall struct {
	ID, Name, Arguments string
}

// Usage is the token counts that a reply reports.
type Usage struct{ Prompt, Completion, Cached, CacheWrite, Reasoning int }

// ending is how a response's body ends.
type ending string

const (
	endWhole ending = ""      // as the protocol defines it
	endCut   ending = "cut"   // a clean end of the body, too early
	endReset ending = "reset" // the connection is reset
	endFail  ending = "fail"  // an error in the stream
	endStall ending = "stall" // nothing more comes until the client gives up or the server closes
)

// Reply is the answer to a request. Its methods return changed copies.
type Reply struct {
	name      string
	text      string
	reasoning string
	calls     []ToolCall
	finish    string // "-" for none
	usage     *Usage
	model     string
	noStream  bool

	status  int
	header  http.Header
	body    func(w http.ResponseWriter) // replaces everything above
	raw     []string                    // replaces the events; written as they are
	comment int                         // keep-alive comments before the events

	delay  time.Duration // before each event and comment
	first  time.Duration // before the response
	holds  map[int]*Gate // before the event with this index
	ending ending
	after  int // events before the ending; -1: before the response's header

	failure [2]string // kind and message of an error in the stream
}

// Text answers with text, streamed by words.
func Text(text string) Reply { return Reply{name: "text", text: text, finish: "stop"} }

// Call asks for one tool call.
func Call(name, arguments string) Reply { return Calls(ToolCall{Name: name, Arguments: arguments}) }

// Calls asks for several tool calls in one answer.
func Calls(calls ...ToolCall) Reply { return Reply{name: "calls", calls: calls, finish: "tool_calls"} }

// And adds the calls of another reply.
func (r Reply) And(other Reply) Reply {
	r.calls = append(slices.Clip(r.calls), other.calls...)
	return r
}

// JSONFinal answers with the JSON action protocol's final.
func JSONFinal(content string) Reply { return jsonAction("type", "final", "content", content) }

// JSONAsk answers with the JSON action protocol's question.
func JSONAsk(question string) Reply { return jsonAction("type", "ask_user", "question", question) }

// JSONCall answers with the JSON action protocol's tool call. arguments is JSON.
func JSONCall(name, arguments string) Reply {
	quoted, _ := json.Marshal(name) // strings always marshal
	return Text(fmt.Sprintf(`{"type":"tool_call","name":%s,"arguments":%s}`, quoted, arguments))
}

func jsonAction(pairs ...string) Reply {
	fields := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
	}
	b, _ := json.Marshal(fields) // strings always marshal
	return Text(string(b))
}

// Empty answers with neither text nor calls.
func Empty() Reply { return Text("") }

// Status refuses with an HTTP status and OpenAI's shape of an error.
func Status(code int, kind, message string) Reply {
	// always marshals
	b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": kind, "code": kind}})
	return StatusBody(code, "application/json", string(b))
}

// StatusBody answers with a status and this exact body.
func StatusBody(code int, contentType, body string) Reply {
	return Reply{name: fmt.Sprintf("status %d", code), status: code, body: func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body)) // the client may be gone
	}}
}

// Raw answers 200 with these pieces, unchanged, as the body of an event stream.
func Raw(pieces ...string) Reply { return Reply{name: "raw", raw: pieces} }

// Huge answers with an endless event of text, until it has written that many bytes or the client disconnects.
func Huge(bytes int64) Reply {
	return Reply{name: "huge", body: func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		piece := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 32<<10) + `"}}]}` + "\n\n"
		for left := bytes; left > 0; left -= int64(len(piece)) {
			if _, err := w.Write([]byte(piece)); err != nil {
				return
			}
		}
	}}
}

// Finish sets the finish reason; "" leaves it out.
func (r Reply) Finish(reason string) Reply {
	if r.finish = reason; reason == "" {
		r.finish = "-"
	}
	return r
}

// WithText puts text before the tool calls.
func (r Reply) WithText(text string) Reply { r.text = text; return r }

// Reasoning puts reasoning before the text.
func (r Reply) Reasoning(text string) Reply { r.reasoning = text; return r }

// Usage makes the reply report token counts. Without it none are reported.
func (r Reply) Usage(prompt, completion, cached int) Reply {
	r.usage = &Usage{Prompt: prompt, Completion: completion, Cached: cached}
	return r
}

// Counts makes the reply report these token counts.
func (r Reply) Counts(u Usage) Reply { r.usage = &u; return r }

// Model sets the model's name in the answer; by default it is the requested one.
func (r Reply) Model(name string) Reply { r.model = name; return r }

// Plain answers with one JSON object although the client requested a stream.
func (r Reply) Plain() Reply { r.noStream = true; return r }

// Header adds a response header.
func (r Reply) Header(name, value string) Reply {
	r.header = maps.Clone(r.header)
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, value)
	return r
}

// RetryAfter sets the Retry-After header.
func (r Reply) RetryAfter(value string) Reply { return r.Header("Retry-After", value) }

// Delay waits before each event and each keep-alive.
func (r Reply) Delay(d time.Duration) Reply { r.delay = d; return r }

// FirstDelay waits before the response's header.
func (r Reply) FirstDelay(d time.Duration) Reply { r.first = d; return r }

// KeepAlives puts n comments before the events, as providers do while a model is busy.
func (r Reply) KeepAlives(n int) Reply { r.comment = n; return r }

// Hold stops at the gate before the event with this index (0: before the first), until it is released.
func (r Reply) Hold(before int, gate *Gate) Reply {
	r.holds = maps.Clone(r.holds)
	if r.holds == nil {
		r.holds = map[int]*Gate{}
	}
	r.holds[before] = gate
	return r
}

// CutAfter ends the body cleanly after n events.
func (r Reply) CutAfter(n int) Reply { r.ending, r.after = endCut, n; return r }

// ResetAfter resets the connection after n events; -1 resets it before the response's header.
func (r Reply) ResetAfter(n int) Reply { r.ending, r.after = endReset, n; return r }

// FailAfter sends an error in the stream after n events, and ends it.
func (r Reply) FailAfter(n int, kind, message string) Reply {
	r.ending, r.after, r.failure = endFail, n, [2]string{kind, message}
	return r
}

// StallAfter sends nothing more after n events; -1 sends not even the response's header.
func (r Reply) StallAfter(n int) Reply { r.ending, r.after = endStall, n; return r }

// Reply implements Script: it always returns r.
func (r Reply) Reply(Request) Reply { return r }
