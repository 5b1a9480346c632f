package tests

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// Readers that break off after a few events, and go on at another server, get every event once and in order, byte for
// byte as a reader does that never broke off: during the turns and after them.
func TestAStreamIsResumedAThousandTimes(t *testing.T) {
	t.Parallel()
	const turns, readers = 3, 10
	e := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		if q.Step < 4 {
			return fakellm.Call("local_echo", fmt.Sprintf(`{"text":"%d"}`, q.Step)).WithText(strings.Repeat("some words ", 20))
		}
		return fakellm.Text(strings.Repeat("the answer ", 50))
	}), func(c *config.Config) { c.HTTP.RequestsPerSecond = 10_000 })
	e.work(withEcho()...)
	servers := []*web{e.web(), e.web(), e.web()}
	events := "/v1/sessions/" + session(t) + "/events"
	for i := range turns {
		require.Equal(t, http.StatusAccepted, servers[0].call("POST", "/v1/sessions/"+session(t)+"/messages",
			map[string]any{"text": fmt.Sprintf("Go %d.", i), "queue": true}, nil, "Idempotency-Key", fmt.Sprint("m", i)))
	}
	var resumed atomic.Int64
	read := func(seed uint64) (all []frame) {
		random := rand.New(rand.NewPCG(seed, 1))
		last := ""
		for completed := 0; completed < turns; {
			w := servers[random.IntN(len(servers))]
			var headers []string
			if last != "" {
				headers = []string{"Last-Event-ID", last}
			}
			res := w.request(t.Context(), "GET", events, nil, headers...)
			if !assert.Equal(t, http.StatusOK, res.StatusCode) {
				return nil
			}
			left := 1 + random.IntN(4)
			for f := range stream(res.Body) {
				all, last = append(all, f), f.id
				if strings.Contains(f.data, `"kind":"`+string(turn.EventTurnCompleted)+`"`) {
					completed++
				}
				if left--; left == 0 || completed == turns {
					break
				}
			}
			res.Body.Close() // in the middle of the stream
			resumed.Add(1)
		}
		return all
	}
	results := make([][]frame, readers)
	var live sync.WaitGroup
	for i := range results {
		live.Go(func() { results[i] = read(uint64(i)) })
	}
	live.Wait()
	for seed := uint64(100); resumed.Load() < 1000; seed++ { // the turns have ended
		results = append(results, read(seed))
	}
	res := servers[0].request(t.Context(), "GET", events+"?follow=false", nil)
	defer res.Body.Close()
	whole := frames(res.Body, -1)
	require.Greater(t, len(whole), 50)
	for i, got := range results {
		assert.Equal(t, whole, got, "reader %d", i)
	}
	servers[0].note()
	t.Logf("%d events, resumed %d times", len(whole), resumed.Load())
}
