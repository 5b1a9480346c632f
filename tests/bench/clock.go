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

// scene is what the clock, a provider of its own, does in answer to a user's message, which holds it.
type scene struct {
	Kind sceneKind `json:"kind"`
	// Of a stream: how long it thinks before the first byte, and how many bursts of deltas it has.
	ThinkMS int `json:"think_ms,omitempty"`
	Bursts  int `json:"bursts,omitempty"`
}

type sceneKind string

// The scenes.
const (
	sceneFinal    sceneKind = "final"    // it answers
	sceneStream   sceneKind = "stream"   // it answers with the time, again and again
	sceneHang     sceneKind = "hang"     // it falls silent in the middle of its answer
	sceneThink    sceneKind = "think"    // or before it
	sceneTool     sceneKind = "tool"     // it calls a tool that hangs
	sceneApproval sceneKind = "approval" // it calls one that needs a person's word
	sceneQuestion sceneKind = "question" // it asks the user
)

const (
	// burstDeltas are sent deltaEvery apart, as a quick model does; between bursts it is silent for longer than the journal's
	// batches, so that the first delta of each is a first byte again.
	burstDeltas = 10
	deltaEvery  = 20 * time.Millisecond
	burstEvery  = 250 * time.Millisecond
	// firstMark stands before the time of a burst's first delta.
	firstMark = "!"
)

func (s scene) message() string {
	b, _ := json.Marshal(s) // strings and numbers always marshal
	return question + string(b)
}

// clockRole serves a provider whose deltas say when they were sent. It prints its address.
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
	e := &teller{w: w, ctx: r.Context()}
	switch {
	case again:
		e.text("It is done.")
	case s.Kind == sceneStream:
		e.stream(s)
	case s.Kind == sceneHang:
		e.text("I begin with")
		<-e.ctx.Done()
	case s.Kind == sceneThink:
		<-e.ctx.Done()
	case s.Kind == sceneTool:
		e.call("mcp_bench_slow", `{"text":"x"}`)
		return
	case s.Kind == sceneApproval:
		e.call(laneLocal.wire(), `{"path":"page-0.txt"}`)
		return
	case s.Kind == sceneQuestion:
		e.call("ask_user", `{"question":"Which of them?"}`)
		return
	default:
		e.text("It is done.")
	}
	e.end("stop")
}

// read finds the user's last message and whether it has been answered with a call before.
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

// teller writes an answer's events.
type teller struct {
	w   http.ResponseWriter
	ctx context.Context
}

func (e *teller) send(choice string) {
	fmt.Fprintf(e.w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"clock\",\"choices\":[%s]}\n\n", choice)
	_ = http.NewResponseController(e.w).Flush() // who has gone reads nothing
}

func (e *teller) text(delta string) {
	e.send(fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","content":%q}}`, delta))
}

func (e *teller) call(name, arguments string) {
	e.send(fmt.Sprintf(`{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":%q,"arguments":%q}}]}}`, name, arguments))
	e.end("tool_calls")
}

func (e *teller) end(reason string) {
	e.send(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, reason))
	fmt.Fprint(e.w, "data: [DONE]\n\n")
}

// stream sends the time in bursts.
func (e *teller) stream(s scene) {
	e.wait(time.Duration(s.ThinkMS) * time.Millisecond)
	for range s.Bursts {
		mark := firstMark
		for range burstDeltas {
			e.text(mark + strconv.FormatInt(time.Now().UnixNano(), 10) + " ")
			mark = ""
			e.wait(deltaEvery)
		}
		e.wait(burstEvery)
	}
}

func (e *teller) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
	}
}
