package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// scene tells the clock, a scripted provider in its own process, how to respond. The user's message contains it as
// JSON.
type scene struct {
	Kind sceneKind `json:"kind"`
	// ThinkMS is the delay before the first byte of a stream, and Bursts is its number of bursts of deltas.
	ThinkMS int `json:"think_ms,omitempty"`
	Bursts  int `json:"bursts,omitempty"`
}

type sceneKind string

// The scenes.
const (
	sceneFinal    sceneKind = "final"    // the provider answers
	sceneStream   sceneKind = "stream"   // the answer is a stream of timestamps, in bursts
	sceneSteady   sceneKind = "steady"   // the answer is Bursts timestamps, steadyEvery apart
	sceneHang     sceneKind = "hang"     // the provider stalls in the middle of its answer
	sceneThink    sceneKind = "think"    // the provider stalls before its answer
	sceneTool     sceneKind = "tool"     // the model calls a tool that hangs
	sceneApproval sceneKind = "approval" // the model calls a tool that needs approval
	sceneQuestion sceneKind = "question" // the model asks the user
)

const (
	// A burst has burstDeltas deltas, deltaEvery apart, as from a fast model. The pause between bursts is longer than
	// the journal's batching interval, so that the first delta of each burst counts as a first byte again.
	burstDeltas = 10
	deltaEvery  = 20 * time.Millisecond
	burstEvery  = 250 * time.Millisecond
	// steadyEvery is the interval of a steady stream: 20 deltas a second.
	steadyEvery = 50 * time.Millisecond
	// firstMark precedes the timestamp of a burst's first delta.
	firstMark = "!"
)

func (s scene) message() string {
	b, _ := json.Marshal(s) // strings and numbers always marshal
	return question + string(b)
}

// clockRole serves a provider whose deltas hold the time at which they were sent. It prints its address.
func clockRole(ctx context.Context, _ []string) error {
	l, err := listen()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", tick)
	srv := &http.Server{Handler: mux} //nolint:gosec // loopback, of a benchmark
	go func() { _ = srv.Serve(l) }()  // ends with Close
	defer srv.Close()
	fmt.Println("http://" + l.Addr().String() + "/v1")
	<-ctx.Done()
	return nil
}

// tick answers one request.
func tick(w http.ResponseWriter, r *http.Request) {
	s, again, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	t := &teller{w: w, ctx: r.Context()}
	switch {
	case again:
		t.text("It is done.")
	case s.Kind == sceneStream:
		t.stream(s)
	case s.Kind == sceneSteady:
		t.steady(s)
	case s.Kind == sceneHang:
		t.text("I begin with")
		<-t.ctx.Done()
	case s.Kind == sceneThink:
		<-t.ctx.Done()
	case s.Kind == sceneTool:
		t.call("mcp_bench_slow", `{"text":"x"}`)
		return
	case s.Kind == sceneApproval:
		t.call(laneLocal.wire(), fmt.Sprintf(`{"path":%q}`, page(resultBytes, 0)))
		return
	case s.Kind == sceneQuestion:
		t.call("ask_user", `{"question":"Which of them?"}`)
		return
	default:
		t.text("It is done.")
	}
	t.end("stop")
}

// read finds the user's last message, and reports whether the provider has already responded to it with a call.
func read(r *http.Request) (s scene, again bool, err error) {
	var body struct {
		Messages []struct{ Role, Content string } `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return s, false, err
	}
	for i := len(body.Messages) - 1; i >= 0; i-- {
		m := body.Messages[i]
		if m.Role == "assistant" {
			again = true
		}
		if m.Role == "user" {
			_, text, _ := strings.Cut(m.Content, question)
			return s, again, json.Unmarshal([]byte(text), &s)
		}
	}
	return s, false, fmt.Errorf("there is no message of a user")
}

// teller writes the events of a response.
type teller struct {
	w   http.ResponseWriter
	ctx context.Context
}

func (t *teller) send(choice string) {
	fmt.Fprintf(t.w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"clock\",\"choices\":[%s]}\n\n",
		choice)
	_ = http.NewResponseController(t.w).Flush() // fails only if the reader has disconnected
}

func (t *teller) text(delta string) {
	t.send(fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","content":%q}}`, delta))
}

func (t *teller) call(name, arguments string) {
	t.send(fmt.Sprintf(
		`{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":%q,"arguments":%q}}]}}`, name, arguments))
	t.end("tool_calls")
}

func (t *teller) end(reason string) {
	t.send(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, reason))
	fmt.Fprint(t.w, "data: [DONE]\n\n")
}

// stream sends timestamps in bursts.
func (t *teller) stream(s scene) {
	t.wait(time.Duration(s.ThinkMS) * time.Millisecond)
	for range s.Bursts {
		mark := firstMark
		for range burstDeltas {
			t.text(mark + strconv.FormatInt(time.Now().UnixNano(), 10) + " ")
			mark = ""
			t.wait(deltaEvery)
		}
		t.wait(burstEvery)
	}
}

// steady sends timestamps at one interval.
func (t *teller) steady(s scene) {
	t.wait(time.Duration(s.ThinkMS) * time.Millisecond)
	for range s.Bursts {
		t.text(strconv.FormatInt(time.Now().UnixNano(), 10) + " ")
		t.wait(steadyEvery)
	}
}

func (t *teller) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
}
