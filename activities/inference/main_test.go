package inference_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/activities/inference/chat"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary stands for an API key. It may appear only in a request's header.
const canary = "sk-canary-0123456789abcdef"

// recorder is a sink that keeps what it receives.
type recorder struct {
	mu        sync.Mutex
	text      []string
	reasoning []string
	heard     chan struct{} // closed at the first text
}

func newRecorder() *recorder { return &recorder{heard: make(chan struct{})} }

func (r *recorder) Text(delta string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.text) == 0 {
		close(r.heard)
	}
	r.text = append(r.text, delta)
}

func (r *recorder) Reasoning(delta string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasoning = append(r.reasoning, delta)
}

func (r *recorder) all() string { return strings.Join(r.text, "") }

// chatOf returns an Endpoint of Chat Completions that sends requests to base.
func chatOf(t *testing.T, base string, change ...func(*inference.Options)) *inference.Endpoint {
	t.Helper()
	o := inference.Options{Name: "scripted", BaseURL: base, APIKey: canary,
		Wire: func(turn.Prompt) inference.Wire { return chat.Wire{} }}
	for _, f := range change {
		f(&o)
	}
	c, err := inference.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func prompt(text string) turn.Prompt {
	return turn.Prompt{Model: "m", System: "Be brief.", Messages: []turn.Message{{Role: turn.RoleUser, Text: text}}}
}

// infer runs one inference against a server with this script.
func infer(t *testing.T, s fakellm.Script, change ...func(*inference.Options)) (turn.Completion, *recorder, error) {
	t.Helper()
	sink := newRecorder()
	c, err := chatOf(t, fakellm.Start(t, s).URL(), change...).Infer(t.Context(), prompt("hello"), sink)
	return c, sink, err
}

// refusal asserts that err is a *turn.Error with this code whose text does not contain the key, and returns it.
func refusal(t *testing.T, err error, code turn.Code) *turn.Error {
	t.Helper()
	var e *turn.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	require.NotContains(t, err.Error(), canary)
	return e
}
