package tests

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

// response is what the tests look at of a response.
type response struct {
	ID, Status string
	Output     []struct{ Type, Status string }
}

// A response in the background is cancelled while the model writes; its turn ends, and reading it again says so.
func TestAResponseIsCancelled(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Func(func(fakellm.Request) fakellm.Reply {
		return fakellm.Text("Never ending.").Hold(1,
			gate)
	}))
	t.Cleanup(gate.Release)
	e.work()
	w := e.web()
	var r, again response
	require.Equal(t, http.StatusOK, w.call("POST", "/v1/responses", map[string]any{"input": "Go on.", "background": true},
		&r))
	assert.Equal(t, "queued", r.Status)
	e.reach(gate)
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/responses/"+r.ID, nil, &again))
	assert.Equal(t, "in_progress", again.Status)
	for range 2 { // the second time, it is cancelled already
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/responses/"+r.ID+"/cancel", nil, &again))
		assert.Equal(t, "cancelled", again.Status)
	}
	require.Equal(t, http.StatusOK, w.call("GET", "/v1/responses/"+r.ID, nil, &again))
	assert.Equal(t, "cancelled", again.Status)
	w.note()
}

// Another principal finds no response, and no conversation.
func TestResponsesBelongToAPrincipal(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Func(func(fakellm.Request) fakellm.Reply { return fakellm.Text("Yes.") }))
	e.work()
	w := e.web()
	var r response
	require.Equal(t, http.StatusOK, w.call("POST", "/v1/responses", map[string]any{"input": "Hello."}, &r))
	w.note()
	_, secret, err := e.journal.CreateToken(t.Context(), client.CreateTokenInput{Principal: "bob",
		Rights: client.Rights()})
	require.NoError(t, err)
	other := *w
	other.token = secret
	assert.Equal(t, http.StatusNotFound, other.call("GET", "/v1/responses/"+r.ID, nil, nil))
	assert.Equal(t, http.StatusNotFound, other.call("POST", "/v1/responses",
		map[string]any{"input": "More.", "previous_response_id": r.ID}, nil))
	assert.Equal(t, http.StatusNotFound, other.call("DELETE", "/v1/responses/"+r.ID, nil, nil))
}

// A response that goes on from an older one is a fork; the newer one stays as it is.
func TestAResponseForks(t *testing.T) {
	t.Parallel()
	e := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		return fakellm.Text("To: " +
			q.Chat.Last("user").Content)
	}))
	e.work()
	w := e.web()
	ask := func(input, previous string) (r response) {
		body := map[string]any{"input": input}
		if previous != "" {
			body["previous_response_id"] = previous
		}
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/responses", body, &r))
		w.note()
		return r
	}
	one := ask("One.", "")
	ask("Two.", one.ID)
	assert.Len(t, w.sessions(), 1)
	ask("Three.", one.ID)
	require.Len(t, w.sessions(), 2)
	s, err := e.journal.Session(t.Context(), w.sessions()[0])
	require.NoError(t, err)
	messages, _ := e.transcript(s.ID)
	var users []string
	for _, m := range messages {
		if m.Role == turn.RoleUser {
			users = append(users, m.Text)
		}
	}
	assert.Equal(t, []string{"One.", "Three."}, users)
}
