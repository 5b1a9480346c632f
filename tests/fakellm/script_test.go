package fakellm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/tests/fakellm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// post sends messages ("role: content", "assistant! id" for one with a call) and returns the raw body of the answer.
func post(t *testing.T, s *fakellm.Server, messages ...string) (string, error) {
	t.Helper()
	res, err := client.Do(request(t.Context(), t, s, messages...))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

func request(ctx context.Context, t *testing.T, s *fakellm.Server, messages ...string) *http.Request {
	t.Helper()
	var list []map[string]any
	for _, m := range messages {
		role, content, _ := strings.Cut(m, ": ")
		if id, ok := strings.CutPrefix(role, "assistant! "); ok {
			list = append(list, map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": id}}})
			continue
		}
		list = append(list, map[string]any{"role": role, "content": content})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "stream": true, "messages": list})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/chat/completions",
		strings.NewReader(string(body)))
	require.NoError(t, err)
	return req
}

func TestStepsCountTheModelsAnswers(t *testing.T) {
	s := fakellm.Start(t, fakellm.Steps(fakellm.Text("zero"), fakellm.Text("one"), fakellm.Text("two")))
	for want, messages := range map[string][]string{
		"zero": {"system: s", "user: q"},
		"one":  {"user: q", "assistant: a", "user: (Automatic note, not from the user) again"},
		"two":  {"user: q", "assistant: a", "user: Result of call 1.0 (ok):\nx", "assistant: b"},
	} {
		body, err := post(t, s, messages...)
		require.NoError(t, err)
		assert.Contains(t, body, `"content":"`+want+`"`)
	}
	body, err := post(t, s, "user: q", "assistant: a", "user: second question")
	require.NoError(t, err)
	assert.Contains(t, body, "zero", "a new user message begins anew")
	body, err = post(t, s, "user: q", "assistant! call_s0_0", "tool: r", "assistant! call_s1_0", "tool: r",
		"assistant! call_s2_0")
	require.NoError(t, err)
	assert.Contains(t, body, "the script has 3 steps and was asked for number 3")
}

func TestStepsAreFoundInACutTranscript(t *testing.T) {
	s := fakellm.Start(t, fakellm.Func(func(r fakellm.Request) fakellm.Reply { return fakellm.Call("a", "{}") }))
	body, err := post(t, s, "user: q", "assistant! call_s40_0", "tool: r", "assistant! call_s41_0", "tool: r")
	require.NoError(t, err)
	assert.Contains(t, body, "call_s42_0")
	_, err = post(t, s, "user: q", "user: Result of call 7.0 (ok):\nx", "assistant: b",
		"user: Result of call 8.0 (ok):\nx")
	require.NoError(t, err)
	assert.Equal(t, 8, s.Requests()[1].Step)
}

func TestAttemptsCountEqualRequests(t *testing.T) {
	s := fakellm.Start(t, fakellm.Attempts(fakellm.Status(500, "x", "boom"), fakellm.Text("fine")))
	for i, want := range []string{"boom", "fine", "fine"} {
		body, err := post(t, s, "user: q")
		require.NoError(t, err)
		assert.Contains(t, body, want)
		assert.Equal(t, i+1, s.Requests()[i].Attempt)
	}
	body, err := post(t, s, "user: another")
	require.NoError(t, err)
	assert.Contains(t, body, "boom")
}

func TestCasesMatchTheUserMessage(t *testing.T) {
	s := fakellm.Start(t, fakellm.Cases(fakellm.When("boats", fakellm.Text("ahoy")), fakellm.When("", fakellm.Text("eh"))))
	for _, c := range [][2]string{{"about boats?", "ahoy"}, {"about cars?", "eh"}} {
		body, err := post(t, s, "user: "+c[0], "assistant: a", "user: (Automatic note, not from the user) again")
		require.NoError(t, err)
		assert.Contains(t, body, c[1])
	}
}

func TestTheLedgerRecordsTruncatedReplies(t *testing.T) {
	s := fakellm.Start(t, fakellm.Cases(
		fakellm.When("cut", fakellm.Text("a b c").CutAfter(2)),
		fakellm.When("reset", fakellm.Text("a b c").ResetAfter(2)),
		fakellm.When("whole", fakellm.Text("a b c")),
	))
	for _, word := range []string{"cut", "reset", "whole"} {
		_, err := post(t, s, "user: "+word)
		assert.Equal(t, word == "reset", err != nil, "%s: %v", word, err)
	}
	require.NoError(t, s.Await(t.Context(), func(rs []fakellm.Request) bool { return rs[2].Outcome != fakellm.Open }))
	got := s.Requests()
	assert.Equal(t, []fakellm.Outcome{fakellm.Cut, fakellm.Cut, fakellm.Sent},
		[]fakellm.Outcome{got[0].Outcome, got[1].Outcome, got[2].Outcome})
	assert.Equal(t, 2, got[0].Events)
	assert.Equal(t, 6, got[2].Events, "role, three words, finish, done")
	assert.Contains(t, string(got[0].Body), "user")
}

func TestAGateHoldsInTheMiddle(t *testing.T) {
	gate := fakellm.NewGate()
	s := fakellm.Start(t, fakellm.Text("a b").Hold(2, gate))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := client.Do(request(ctx, t, s, "user: q"))
	require.NoError(t, err)
	defer res.Body.Close()
	<-gate.Reached()
	lines := bufio.NewReader(res.Body)
	for range 3 { // two events came before the gate
		_, err := lines.ReadString('\n')
		require.NoError(t, err)
	}
	assert.Equal(t, fakellm.Open, s.Requests()[0].Outcome)
	gate.Release()
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	assert.Contains(t, string(rest), "[DONE]")
}

func TestAClientThatDisconnectsIsRecorded(t *testing.T) {
	gate := fakellm.NewGate()
	s := fakellm.Start(t, fakellm.Text("a b").Hold(0, gate))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		res, err := client.Do(request(ctx, t, s, "user: q"))
		if err == nil {
			_, _ = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
	})
	<-gate.Reached()
	cancel()
	wg.Wait()
	require.NoError(t, s.Await(t.Context(), func(rs []fakellm.Request) bool { return rs[0].Outcome == fakellm.Aborted }))
}

func TestCloseEndsStalledReplies(t *testing.T) {
	s := fakellm.Start(t, fakellm.Text("a").StallAfter(1))
	res, err := client.Do(request(t.Context(), t, s, "user: q"))
	require.NoError(t, err)
	defer res.Body.Close()
	began := time.Now()
	require.NoError(t, s.Close())
	_, _ = io.ReadAll(res.Body)
	assert.Less(t, time.Since(began), 5*time.Second)
}
