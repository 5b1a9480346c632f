package tests

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// openAI returns a client of the OpenAI library for the server.
func (w *web) openAI() *openai.Client {
	cfg := openai.DefaultConfig(w.token)
	cfg.BaseURL = w.URL + "/v1"
	return openai.NewClientWithConfig(cfg)
}

func said(pairs ...string) (list []openai.ChatCompletionMessage) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, openai.ChatCompletionMessage{Role: pairs[i], Content: pairs[i+1]})
	}
	return list
}

// completion asks for a completion, streamed or whole, and returns its text and finish reason.
func (w *web) completion(c *openai.Client, stream bool, messages []openai.ChatCompletionMessage) (text, finish string) {
	w.t.Helper()
	in := openai.ChatCompletionRequest{Model: "everturn", Messages: messages}
	if !stream {
		out, err := c.CreateChatCompletion(w.t.Context(), in)
		require.NoError(w.t, err)
		w.note()
		return out.Choices[0].Message.Content, string(out.Choices[0].FinishReason)
	}
	in.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	s, err := c.CreateChatCompletionStream(w.t.Context(), in)
	require.NoError(w.t, err)
	defer s.Close()
	used := 0
	for {
		chunk, err := s.Recv()
		if err == io.EOF {
			assert.Positive(w.t, used, "the usage comes last")
			return text, finish
		}
		require.NoError(w.t, err)
		if chunk.Usage != nil {
			used = chunk.Usage.TotalTokens
			w.note()
		}
		for _, choice := range chunk.Choices {
			text += choice.Delta.Content
			finish = string(choice.FinishReason)
		}
	}
}

// note notes the turns of all sessions for the checks at the end of the test.
func (w *web) note() {
	w.t.Helper()
	for _, s := range w.sessions() {
		turns, err := w.journal.Turns(w.t.Context(), s)
		require.NoError(w.t, err)
		for _, rec := range turns {
			run := workflow.Execution{ID: s, RunID: rec.ID}
			if !slices.Contains(w.ran, run) && rec.Session == s {
				w.ran = append(w.ran, run)
			}
		}
	}
}

// sessions returns the IDs of the sessions, the latest first.
func (w *web) sessions() []string {
	w.t.Helper()
	list, err := w.journal.Sessions(w.t.Context(), 100)
	require.NoError(w.t, err)
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

// A client that sends the whole conversation with each request stays in one session, whether it streams or not. An
// answer that it asks for again is a fork.
func TestChatCompletionsFindTheirSession(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("Third.", fakellm.Text("To the third.")),
		fakellm.When("Second.", fakellm.Text("To the second.")),
		fakellm.When("First.", fakellm.Text("To the first.")),
	))
	e.work()
	w := e.web()
	c := w.openAI()
	conversation := said("system", "Be brief.", "user", "First.")
	text, finish := w.completion(c, true, conversation)
	assert.Equal(t, "To the first.", text)
	assert.Equal(t, "stop", finish)
	conversation = append(conversation, said("assistant", text, "user", "Second.")...)
	text, _ = w.completion(c, false, conversation)
	assert.Equal(t, "To the second.", text)
	require.Len(t, w.sessions(), 1)
	text, _ = w.completion(c, true, append(conversation, said("assistant", text, "user", "Third.")...))
	assert.Equal(t, "To the third.", text)
	require.Len(t, w.sessions(), 1, "one conversation, one session")
	text, _ = w.completion(c, false, conversation) // again, as a person who wants another answer
	assert.Equal(t, "To the second.", text)
	assert.Len(t, w.sessions(), 2, "the conversation had moved on")
	text, _ = w.completion(c, false, said("user", "Never said.", "assistant", "Nor this.", "user", "Second."))
	assert.Equal(t, "To the second.", text)
	assert.Len(t, w.sessions(), 3, "another conversation")
}

// A completion that an SDK sends again after an error is the same turn; so is one under the same key.
func TestAChatCompletionThatIsSentAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Func(func(fakellm.Request) fakellm.Reply { return fakellm.Text("Once.") }))
	e.work()
	w := e.web()
	body := map[string]any{"model": "everturn", "messages": []any{map[string]any{"role": "user", "content": "Hello."}}}
	ids := map[string]bool{}
	for _, headers := range [][]string{{"X-Stainless-Retry-Count", "0"}, {"X-Stainless-Retry-Count", "1"},
		{"X-Stainless-Retry-Count", "2"}} {
		var out openai.ChatCompletionResponse
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/chat/completions", body, &out, headers...))
		assert.Equal(t, "Once.", out.Choices[0].Message.Content)
		ids[out.ID] = true
		w.note()
	}
	assert.Len(t, ids, 1)
	assert.Len(t, e.model.Requests(), 1)
	for range 3 {
		var out openai.ChatCompletionResponse
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/chat/completions", body, &out, "Idempotency-Key", "k"))
		ids[out.ID] = true
		w.note()
	}
	assert.Len(t, ids, 2, "another key is another request")
	other := map[string]any{"model": "everturn", "messages": []any{map[string]any{"role": "user", "content": "Other."}}}
	assert.Equal(t, http.StatusBadRequest, w.call("POST", "/v1/chat/completions", other, nil, "Idempotency-Key", "k"))
	assert.Len(t, e.model.Requests(), 2)
}

// What the client cannot be told by the protocol is text: an attempt that begins again, a question, a permission.
func TestAChatCompletionSaysWhatTheTurnWaitsFor(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Cases(
		fakellm.When("main.go", fakellm.JSONFinal("It is fine.")),
		fakellm.When("Check it.", fakellm.JSONAsk("Which file?")),
	), inJSON)
	e.work()
	w := e.web()
	c := w.openAI()
	conversation := said("user", "Check it.")
	text, finish := w.completion(c, false, conversation)
	assert.Equal(t, "Which file?", text)
	assert.Equal(t, "stop", finish)
	text, _ = w.completion(c, true, append(conversation, said("assistant", text, "user", "main.go")...))
	assert.Equal(t, "It is fine.", text)
	ids := w.sessions()
	require.Len(t, ids, 1, "the message answers the question")
	rec, err := e.journal.Session(t.Context(), ids[0])
	require.NoError(t, err)
	assert.Equal(t, 1, rec.Turns)
	assert.Equal(t, turn.StateCompleted, rec.LastTurn.State)
}
