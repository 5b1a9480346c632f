package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/httpapi"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// web is an HTTP server of a harness, with a token that has all rights.
type web struct {
	*env
	*httptest.Server
	token string
}

func (e *env) web() *web {
	e.t.Helper()
	_, secret, err := e.journal.CreateToken(e.t.Context(),
		client.CreateTokenInput{Principal: "ann", Rights: journal.Rights()})
	require.NoError(e.t, err)
	s, err := httpapi.New(e.t.Context(), httpapi.Options{Client: e.people(), Config: e.cfg,
		Log: slog.New(slog.DiscardHandler)})
	require.NoError(e.t, err)
	w := &web{e, httptest.NewServer(s), secret}
	e.t.Cleanup(w.Close)
	return w
}

// request sends a request with a body of JSON; nil is none.
func (w *web) request(ctx context.Context, method, path string, body any, headers ...string) *http.Response {
	w.t.Helper()
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		require.NoError(w.t, err)
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.URL+path, content)
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	return res
}

// call sends a request, and decodes its response into out unless that is nil.
func (w *web) call(method, path string, body, out any, headers ...string) (status int) {
	w.t.Helper()
	res := w.request(w.t.Context(), method, path, body, headers...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	if out != nil {
		require.NoError(w.t, json.Unmarshal(b, out), string(b))
	}
	return res.StatusCode
}

// frame is one event of a stream.
type frame struct{ id, data string }

// stream yields the events of a stream.
func stream(r io.Reader) iter.Seq[frame] {
	return func(yield func(frame) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		var f frame
		for lines.Scan() {
			switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
			case "id":
				f.id = value
			case "data":
				f.data = value
			case "":
				if f != (frame{}) && !yield(f) {
					return
				}
				f = frame{}
			}
		}
	}
}

// frames reads the next n events of a stream, or all if n is negative.
func frames(r io.Reader, n int) (list []frame) {
	for f := range stream(r) {
		if list = append(list, f); len(list) == n {
			break
		}
	}
	return list
}

// A message that is sent, decided and read over HTTP only: the stream has what the journal has, from every index on.
func TestATurnOverHTTP(t *testing.T) {
	t.Parallel()
	var effects atomic.Int32
	e := newEnv(t, fakellm.Steps(fakellm.Call("local_touch", `{"text":"x"}`), fakellm.Text("It is touched.")), askToTouch)
	e.work(touching(&effects))
	w := e.web()
	s := "/v1/sessions/" + session(t)
	var sent client.Turn
	require.Equal(t, http.StatusAccepted, w.call("POST", s+"/messages", map[string]any{"text": "Touch."}, &sent,
		"Idempotency-Key", "m1"))
	e.ran = append(e.ran, workflow.Execution{ID: session(t), RunID: sent.ID})
	live := w.request(t.Context(), "GET", s+"/events", nil) // while the turn runs, to its end
	defer live.Body.Close()
	e.waits(sent.ID, 1)
	var open struct{ Requests []turn.Request }
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/requests", nil, &open))
	require.Len(t, open.Requests, 1)
	request := open.Requests[0]
	decide := s + "/turns/" + sent.ID + "/requests/" + request.ID
	var refused struct{ Error struct{ Code string } }
	require.Equal(t, http.StatusConflict, w.call("POST", decide, map[string]any{"allow": true, "arguments_hash": "other"},
		&refused))
	assert.Equal(t, "arguments_changed", refused.Error.Code)
	var decided struct{ Decisions []turn.Decision }
	require.Equal(t, http.StatusOK, w.call("POST", decide,
		map[string]any{"allow": true, "arguments_hash": request.ArgumentsHash}, &decided))
	require.Len(t, decided.Decisions, 1)
	assert.Equal(t, "ann", decided.Decisions[0].By)
	require.Equal(t, http.StatusConflict, w.call("POST", decide, map[string]any{"allow": false}, &refused))
	assert.Equal(t, "already_decided", refused.Error.Code)
	var result client.Result
	require.Equal(t, http.StatusOK, w.call("GET", s+"/turns/"+sent.ID+"?wait=60", nil, &result))
	assert.Equal(t, turn.StateCompleted, result.State)
	assert.Equal(t, "It is touched.", result.Answer)
	assert.EqualValues(t, 1, effects.Load())

	events, err := e.journal.Events(t.Context(), sent.ID, -1, 1000)
	require.NoError(t, err)
	whole := frames(live.Body, len(events))
	require.Len(t, whole, len(events))
	for i, f := range whole {
		var got turn.Event
		require.NoError(t, json.Unmarshal([]byte(f.data), &got))
		assert.Equal(t, events[i].Kind, got.Kind)
		assert.Equal(t, fmt.Sprintf("%s/%d", sent.ID, i), f.id)
		for _, from := range [][]string{{"?follow=false&after=" + f.id}, {"?turn=" + sent.ID, "Last-Event-ID", f.id}} {
			res := w.request(t.Context(), "GET", s+"/events"+from[0], nil, from[1:]...)
			assert.Equal(t, whole[i+1:], append([]frame{}, frames(res.Body, -1)...), "after %d", i)
			res.Body.Close()
		}
	}
}

// A message that is sent often under one key, at once and later, is answered once.
func TestAMessageOverHTTPCountsOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Func(func(fakellm.Request) fakellm.Reply { return fakellm.Text("Once.") }))
	e.work()
	w := e.web()
	turns := make([]client.Turn, 100)
	var all sync.WaitGroup
	for i := range turns {
		all.Go(func() {
			if i >= len(turns)/2 {
				assert.NoError(t, e.model.Await(t.Context(), func(list []fakellm.Request) bool { return len(list) > 0 }))
			}
			status := w.call("POST", "/v1/sessions/"+session(t)+"/messages", map[string]any{"text": "Hello."}, &turns[i],
				"Idempotency-Key", "m1")
			assert.Equal(t, http.StatusAccepted, status)
		})
	}
	all.Wait()
	e.ran = append(e.ran, workflow.Execution{ID: session(t), RunID: turns[0].ID})
	rec := e.answered(session(t), "m1")
	assert.Equal(t, "Once.", rec.Answer)
	messages, _ := e.transcript(session(t))
	assert.Len(t, messages, 2)
	assert.Len(t, e.model.Requests(), 1)
}
