package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// cancelsAtEnd is a turn.ToolRequest.Elicit without a user.
func cancelsAtEnd(q turn.Elicitation, end <-chan struct{}) turn.ElicitationResponse {
	<-end
	return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationCancel}
}

// working returns a call of one of the server's tools.
func working(t *testing.T, h *Host, tool, arguments string) turn.ToolRequest {
	t.Helper()
	c := h.Catalogues(t.Context())[0]
	require.Empty(t, c.Problem)
	for _, d := range c.Tools {
		if d.ID == "mcp/srv/"+tool {
			return turn.ToolRequest{
				Tool: d.ID, Hash: d.Hash, Arguments: json.RawMessage(arguments), Timeout: 20 * time.Second, Turn: "t",
				CallID: "1.0", Attempt: 1, Elicit: cancelsAtEnd,
			}
		}
	}
	t.Fatal("the server has no tool")
	return turn.ToolRequest{}
}

// inUse returns the session that carries the default tenant's calls.
func inUse(h *Host) *session {
	s, _ := h.connectors["srv"].pool.Listing().(*session)
	return s
}

func (s *session) isStale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale
}

// TestNoLineOfAServerEndsTheWorker checks that no line of a server ends the worker, which also runs the calls of all
// other servers, or makes it stop reading.
func TestNoLineOfAServerEndsTheWorker(t *testing.T) {
	for output, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`:                                                                   "done",
		`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":null}`:                                                     "done",
		`{"jsonrpc":"2.0","method":"notifications/progress"}`:                                                                               "done",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[],"total":1}}`:                                       "done",
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":null}`:                                                       "done",
		`{"jsonrpc":"2.0","id":9,"method":"elicitation/create"}`:                                                                            "done",
		`{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"requestedSchema":{"type":"object","properties":{"a":null}}}}`:     "done",
		`{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage"}`:                                                                        "done",
		`{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[null]}}`:                             "done",
		`{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user","content":[null]}]}}`: "done",
		`{"jsonrpc":"2.0","id":4,"result":{"resultType":"inputRequired","inputRequests":{"k":null}}}`:                                       "The tool ran and answered, but its answer cannot be read",
	} {
		t.Run(output, func(t *testing.T) {
			changed := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
			b := &babbler{output: []byte(output + "\n" + output + "\n" + changed), at: 2}
			h := babbling(t, b)
			req := working(t, h, "work", `{}`)
			r, err := h.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Contains(t, r.Text, want)
			require.Eventually(t, func() bool { return inUse(h).isStale() }, 10*time.Second, 2*time.Millisecond,
				"what it says afterwards is not heard")

			r, err = h.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Equal(t, "done", r.Text)
			assert.EqualValues(t, 1, b.dials.Load(), "the connection was given up")
			assert.True(t, within(closeBound, func() { assert.NoError(t, h.Close()) }), "something still works on what it said")
		})
	}
}

func TestNoListOfAServerEndsTheWorker(t *testing.T) {
	for output, tool := range map[string][]string{
		`{"resources":[null]}`:                            {"list_resources", `{}`},
		`{"resourceTemplates":[null]}`:                    {"list_resources", `{"templates":true}`},
		`{"contents":[null]}`:                             {"read_resource", `{"uri":"x:y"}`},
		`{"inputRequests":{"k":null}}`:                    {"read_resource", `{"uri":"x:y"}`},
		`{"prompts":[null]}`:                              {"list_prompts", `{}`},
		`{"prompts":[{"name":"x","arguments":[null]}]}`:   {"list_prompts", `{}`},
		`{"messages":[null,{"role":"user"}]}`:             {"get_prompt", `{"name":"x"}`},
		`{"messages":[{"role":"user","content":[null]}]}`: {"get_prompt", `{"name":"x"}`},
	} {
		t.Run(output, func(t *testing.T) {
			h := babbling(t, &babbler{output: []byte(`{"jsonrpc":"2.0","id":4,"result":` + output + `}`), at: 2})
			defer func() { require.NoError(t, h.Close()) }()
			r, err := h.Call(t.Context(), working(t, h, tool[0], tool[1]))
			require.NoError(t, err)
			assert.NotEqual(t, turn.OutcomeUnknown, r.Outcome, "it has answered: %s", r.Text)
			assert.Equal(t, "done", ask(t, h))
		})
	}
}

// TestAServerThatCannotBeAskedWhatItKnowsIsStartedAgain covers a server that supports only older protocols and ends on
// the first request of the newest one. The host does not send that request twice.
func TestAServerThatCannotBeAskedWhatItKnowsIsStartedAgain(t *testing.T) {
	b := &babbler{output: []byte("{"), at: -1, mute: func(method string) bool { return method == "server/discover" }}
	h := babbling(t, b)
	defer func() { require.NoError(t, h.Close()) }()
	assert.Equal(t, "done", ask(t, h))
	assert.EqualValues(t, 2, b.dials.Load())
	assert.Zero(t, h.Health()[0].Restarts, "it counts as a loss")
	assert.Equal(t, turn.ServerConnected, h.Health()[0].State)
}

// TestACallWaitsForTheListNoLongerThanItMay checks that calls wait for a hanging refresh of the tool list only until
// their own deadlines, and then report that they were not sent.
func TestACallWaitsForTheListNoLongerThanItMay(t *testing.T) {
	var lists atomic.Int32
	h := babbling(t, &babbler{
		output: []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`), at: -1,
		mute: func(method string) bool { return method == "tools/list" && lists.Add(1) == 2 },
	})
	defer func() { require.NoError(t, h.Close()) }()
	req := working(t, h, "work", `{}`)
	refresh, giveUp := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); h.connectors["srv"].refresh(refresh) }()
	require.Eventually(t, func() bool { return inUse(h).isStale() }, 10*time.Second, 2*time.Millisecond)

	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var err error
	require.True(t, within(10*time.Second, func() { _, err = h.Call(short, req) }), "it waits for the refresh")
	assert.Equal(t, turn.CodeToolNotSent, turn.CodeOf(err))
	assert.ErrorContains(t, err, "waiting for its list of tools")

	output := make(chan string, 2)
	go func() {
		r, err := h.Call(t.Context(), req)
		assert.NoError(t, err)
		output <- r.Text
	}()
	go func() { output <- h.Catalogues(t.Context())[0].Problem }()
	threeUsers := func() bool { return strings.HasSuffix(inUse(h).conn.String(), ", 3 users") }
	require.Eventually(t, threeUsers, 10*time.Second, 2*time.Millisecond, "the refresh and the two")
	giveUp()
	<-over
	assert.ElementsMatch(t, []string{"done", ""}, []string{<-output, <-output})
	assert.EqualValues(t, 3, lists.Load(), "one asks for all that wait")
}
