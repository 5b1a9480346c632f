package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/mcp"
	"github.com/everturn/everturn/workflows/turn"
)

// asking returns a call of the tool that sends elicitations. ask is their JSON, by key.
func asking(t *testing.T, h *mcp.Host, rounds int, ask string) turn.ToolRequest {
	t.Helper()
	return request(t, h, "mcp/act/question", fmt.Sprintf(`{"Rounds":%d,"State":"state-1","Ask":%s}`, rounds, ask))
}

const colourForm = `{"message":"Which\u001b[31m colour?","requestedSchema":{"type":"object","required":["colour"],"properties":{
	"colour":{"type":"string","enum":["red","green"]},"size":{"type":"integer","minimum":1,"default":3},"note":{"type":"string","title":"A\u0007 note"}}}}`

func accept(key, content string) turn.ElicitationResponse {
	return turn.ElicitationResponse{Key: key, Action: turn.ElicitationAccept, Content: json.RawMessage(content)}
}

// TestAQuestionIsAnsweredByAnotherProcess checks that an elicitation outlives the connection, the server's process and
// the host: the continuation is enough to resume the call.
func TestAQuestionIsAnsweredByAnotherProcess(t *testing.T) {
	for name, server := range map[string]mcp.Server{"stdio": stdioActor(t, "act"), "http": httpActor(t, "act")} {
		t.Run(name, func(t *testing.T) {
			before := newHost(t, mcp.Options{}, server)
			req := asking(t, before, 2, `{"c":`+colourForm+`}`)
			r, err := before.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Empty(t, r.Outcome, "it is not over")
			require.Len(t, r.Elicitations, 1)
			assert.Equal(t, "Which colour?", r.Elicitations[0].Message)
			assert.NotContains(t, string(r.Elicitations[0].Schema), `\u0007`)
			require.NoError(t, before.Close())

			h := newHost(t, mcp.Options{}, server)
			req.Attempt, req.Continuation, req.Responses = 2, r.Continuation,
				[]turn.ElicitationResponse{accept("c", `{"colour":"red"}`)}
			r, err = h.Call(t.Context(), req)
			require.NoError(t, err)
			require.Len(t, r.Elicitations, 1, "it asks once more")
			req.Attempt, req.Continuation, req.Responses = 3, r.Continuation,
				[]turn.ElicitationResponse{{Key: "c", Action: turn.ElicitationDecline}}
			r, err = h.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Equal(t, turn.OutcomeOK, r.Outcome)
			assert.Equal(t,
				`heard state-1|{"c":{"action":"accept","content":{"colour":"red","size":3}}}|{"c":{"action":"decline"}}`, r.Text,
				"the answers, with the form's defaults, and the server's own state")
		})
	}
}

func TestAReplyThatDoesNotFitIsAskedForAgainAndNotSent(t *testing.T) {
	h := newHost(t, mcp.Options{}, httpActor(t, "act"))
	req := asking(t, h, 1, `{"a":`+colourForm+
		`,"b":{"message":"B?","requestedSchema":{"type":"object","properties":{"yes":{"type":"boolean"}}}}}`)
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, r.Elicitations, 2)

	for _, bad := range []string{`{"colour":"blue"}`, `{}`, `{"colour":1}`, `{"colour":"red","size":0}`, `[]`, `null`, ``,
		`{"colour"`} {
		req.Continuation, req.Responses = r.Continuation,
			[]turn.ElicitationResponse{accept("a", bad), accept("b", `{"yes":true}`)}
		again, err := h.Call(t.Context(), req)
		require.NoError(t, err, bad)
		require.Len(t, again.Elicitations, 1, bad)
		assert.Equal(t, "a", again.Elicitations[0].Key)
		assert.Contains(t, again.Elicitations[0].Message, "does not fit")
		assert.Contains(t, again.Elicitations[0].Message, "Which colour?")

		req.Continuation, req.Responses = again.Continuation, []turn.ElicitationResponse{accept("", `{"colour":"green"}`)}
		done, err := h.Call(t.Context(), req)
		require.NoError(t, err, bad)
		assert.Contains(t, done.Text, `"colour":"green"`)
		assert.Contains(t, done.Text, `"yes":true`, "what was said well is not asked for again")
	}
	req.Continuation, req.Responses = r.Continuation, []turn.ElicitationResponse{{Key: "a", Action: "shrug"}}
	again, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, again.Elicitations, 2, "one is missing, one is nothing")
}

func TestAnAddressIsAskedForAsItIs(t *testing.T) {
	h := newHost(t, mcp.Options{}, httpActor(t, "act"))
	req := asking(t, h, 1,
		`{"u":{"mode":"url","message":"Log in.","url":"https://example.com/login?a=b","elicitationId":"1"}}`)
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, r.Elicitations, 1)
	assert.Equal(t, "https://example.com/login?a=b", r.Elicitations[0].URL)
	assert.Empty(t, r.Elicitations[0].Schema)
	req.Continuation, req.Responses = r.Continuation, []turn.ElicitationResponse{accept("u", `{"anything":1}`)}
	r, err = h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, `heard state-1|{"u":{"action":"accept"}}`, r.Text)
}

func TestAQuestionThatCannotBeShownEndsTheCall(t *testing.T) {
	server := httpActor(t, "act")
	server.Headers = map[string]string{"Authorization": "Bearer canary-token-123"}
	h := newHost(t, mcp.Options{}, server)
	form := func(field string) string {
		return `{"Rounds":1,"Ask":{"a":{"message":"A?","requestedSchema":{"type":"object","properties":{"f":` + field +
			`}}}}}`
	}
	many := make([]string, 9)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":{"message":"?"}`, i)
	}
	for arguments, want := range map[string]string{
		`{"Rounds":1,"Model":true}`: "Everturn does not support sampling", `{"Rounds":1,"Roots":true}`: "root folders",
		`{"Rounds":1,"Ask":{` + strings.Join(many, ",") +
			`}}`: "9 elicitations at once",
		`{"Rounds":1,"State":"has canary-token-123 in it","Ask":{"a":{"message":"?"}}}`:                    "secret of its own configuration",
		`{"Rounds":1,"Ask":{"\u0007":{"message":"?"}}}`:                                                    "not printable",
		`{"Rounds":1,"Ask":{"a":{"mode":"url","url":"javascript:alert(1)"}}}`:                              "plain web address",
		`{"Rounds":1,"Ask":{"a":{"mode":"url","url":"https://user@example.com/"}}}`:                        "plain web address",
		`{"Rounds":1,"Ask":{"a":{"mode":"url","url":"https://example.com/?t=canary-token-123"}}}`:          "contains a secret",
		`{"Rounds":1,"Ask":{"a":{"mode":"seance","message":"?"}}}`:                                         "seance",
		form(`{"type":"object","properties":{}}`):                                                          "not flat",
		form(`{"type":"string","$ref":"#/x"}`):                                                             "not flat",
		form(`{"type":"array","items":{"type":"string"}}`):                                                 "something else than choices",
		form(`{"type":"strnig"}`):                                                                          "is not a string",
		form(`{"type":"string","enum":["\u001b[31m"]}`):                                                    "cannot be shown",
		form(`{"type":"string","description":"` + strings.Repeat("x", 17<<10) + `"}`):                      "16384 bytes",
		`{"Rounds":1,"Ask":{"a":{"message":"A?","requestedSchema":{"type":"array"}}}}`:                     "not of type",
		`{"Rounds":1,"Ask":{"a":{"message":"?","requestedSchema":{"properties":{"":{"type":"string"}}}}}}`: "cannot be shown",
	} {
		r := call(t, h, "mcp/act/question", arguments)
		assert.Equal(t, turn.OutcomeError, r.Outcome, "%.200s", arguments)
		assert.Contains(t, r.Text, want, "%.200s", arguments)
		assert.Contains(t, r.Text, "did not go on")
		assert.Empty(t, r.Elicitations)
		assert.NotContains(t, r.Text, "canary-token")
	}
}

func TestAContinuationOfMegabytesEndsTheCall(t *testing.T) {
	h := newHost(t, mcp.Options{}, httpActor(t, "act"))
	r := call(t, h, "mcp/act/question", `{"Rounds":1,"State":"`+strings.Repeat("x", 2<<20)+`","Ask":{"a":{"message":"?"}}}`)
	assert.Equal(t, turn.OutcomeError, r.Outcome)
	assert.Contains(t, r.Text, "2097")
	assert.Contains(t, r.Text, "did not go on")
}

func TestAServerThatAsksForEverIsLeft(t *testing.T) {
	h := newHost(t, mcp.Options{}, httpActor(t, "act"))
	req := asking(t, h, 1000, `{"a":{"message":"Again?"}}`)
	for round := 1; ; round++ {
		require.LessOrEqual(t, round, 20)
		r, err := h.Call(t.Context(), req)
		require.NoError(t, err)
		if r.Outcome != "" {
			assert.Contains(t, r.Text, "maximum")
			return
		}
		req.Continuation, req.Responses = r.Continuation,
			[]turn.ElicitationResponse{{Key: "a", Action: turn.ElicitationCancel}}
	}
}

func TestABrokenContinuationSendsNothing(t *testing.T) {
	h := newHost(t, mcp.Options{}, httpActor(t, "act"))
	req := asking(t, h, 1, `{"a":{"message":"?"}}`)
	for _, c := range []string{`x`, `{}`, `{"v":2,"elicitations":[{"key":"a"}]}`, `{"v":1}`, `null`} {
		req.Continuation = []byte(c)
		r, err := h.Call(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, turn.OutcomeDenied, r.Outcome)
		assert.Contains(t, r.Text, "Nothing was sent")
	}
}

// oldActor returns a server of an older protocol, which may send elicitations in the middle of its calls.
func oldActor(t *testing.T) mcp.Server {
	t.Helper()
	old := stdioActor(t, "act")
	old.Env["ACT_OLD"], old.ElicitationTimeout = "yes", 20*time.Second
	return old
}

// suspendable returns a call of the tool that elicits a colour in the middle of the call.
func suspendable(t *testing.T, h *mcp.Host, callID string) turn.ToolRequest {
	t.Helper()
	req := request(t, h, "mcp/act/interrupt", `{}`)
	req.CallID, req.MaySuspend = callID, true
	return req
}

// continued returns the next attempt of a suspended call.
func continued(req turn.ToolRequest, r turn.ToolResult, responses ...turn.ElicitationResponse) turn.ToolRequest {
	req.Attempt++
	req.Continuation, req.Responses = r.Continuation, responses
	return req
}

// TestAnOlderServerMayElicitOnlyIfAllowed checks that a server of an older protocol may send elicitations in the middle
// of a call only if the operator has set timeouts.elicitation and the caller can continue the call.
func TestAnOlderServerMayElicitOnlyIfAllowed(t *testing.T) {
	old := oldActor(t)
	h := newHost(t, mcp.Options{}, old)
	assert.Contains(t, call(t, h, "mcp/act/interrupt", `{}`).Text, "no call is under way whose user could be asked")
	old.ElicitationTimeout = 0
	h = newHost(t, mcp.Options{}, old)
	r, err := h.Call(t.Context(), suspendable(t, h, "3.0"))
	require.NoError(t, err)
	assert.Contains(t, r.Text, "cannot ask", "the server does not know the capability")
}

// TestASuspendedCallGoesOnWithItsResponse checks that the time until the response counts against no timeout, that a
// response that does not fit is elicited again, and that the server gets one response.
func TestASuspendedCallGoesOnWithItsResponse(t *testing.T) {
	h := newHost(t, mcp.Options{}, oldActor(t))
	req := suspendable(t, h, "3.0")
	req.Timeout = time.Second
	asked, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, asked.Elicitations, 1)
	assert.True(t, asked.Held)
	assert.Equal(t, "Which colour?", asked.Elicitations[0].Message)

	again, err := h.Call(t.Context(), continued(req, asked))
	require.NoError(t, err)
	assert.Equal(t, asked, again, "without a response, nothing changes")
	time.Sleep(2 * req.Timeout)
	again, err = h.Call(t.Context(), continued(req, asked, accept("1", `{"colour":1}`)))
	require.NoError(t, err)
	require.Len(t, again.Elicitations, 1)
	assert.True(t, again.Held)
	assert.Contains(t, again.Elicitations[0].Message, "does not fit")

	r, err := h.Call(t.Context(), continued(req, again, accept("1", `{"colour":"red"}`)))
	require.NoError(t, err)
	assert.Equal(t, "accept red", r.Text)
	r, err = h.Call(t.Context(), continued(req, again, accept("1", `{"colour":"green"}`)))
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome, "the call has ended, and does not begin again")
}

// TestASuspendedCallEndsWithItsServer checks that Await returns when the server of a suspended call is gone, and that
// the next attempt gets the call's result.
func TestASuspendedCallEndsWithItsServer(t *testing.T) {
	old := oldActor(t)
	file := filepath.Join(t.TempDir(), "pid")
	old.Command, old.Args = "sh", []string{"-c", `echo $$ > "$0"; exec "$1"`, file, old.Command}
	h := newHost(t, mcp.Options{}, old)
	req := suspendable(t, h, "3.0")
	asked, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); h.Await(t.Context(), req.Turn, req.CallID) }()
	pid, err := os.ReadFile(file)
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
	receive(t, ended)
	r, err := h.Call(t.Context(), continued(req, asked, accept("1", `{"colour":"red"}`)))
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.Contains(t, r.Text, "connection to it was lost")
}

// TestASuspendedCallIsCancelled checks that cancelling the wait for a suspended call cancels the call.
func TestASuspendedCallIsCancelled(t *testing.T) {
	h := newHost(t, mcp.Options{}, oldActor(t))
	req := suspendable(t, h, "3.0")
	asked, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.Await(ctx, req.Turn, req.CallID)
	r, err := h.Call(t.Context(), continued(req, asked, accept("1", `{"colour":"red"}`)))
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	assert.Contains(t, r.Text, "cancelled")
}

// TestASuspendedCallContinuesOnlyInItsProcess checks that a call whose host is gone is unknown, and begins again only
// if it is repeatable.
func TestASuspendedCallContinuesOnlyInItsProcess(t *testing.T) {
	before := newHost(t, mcp.Options{}, oldActor(t))
	req := suspendable(t, before, "3.0")
	asked, err := before.Call(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, before.Close())

	h := newHost(t, mcp.Options{}, oldActor(t))
	req = continued(suspendable(t, h, "3.0"), asked, accept("1", `{"colour":"red"}`))
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, turn.OutcomeUnknown, r.Outcome)
	req.Repeatable = true
	r, err = h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, r.Elicitations, 1, "the response was for the first elicitation")
	assert.NotEqual(t, asked.Continuation, r.Continuation)
}

// TestAQuestionOfOneOfSeveralCallsIsRefusedAloud covers elicitations of older protocols, which do not name their call.
// If several calls are running, the host asks no user and does not invent a response.
func TestAQuestionOfOneOfSeveralCallsIsRefusedAloud(t *testing.T) {
	var log strings.Builder
	h := newHost(t, mcp.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, oldActor(t))
	begun := make(chan struct{}, 1)
	other := request(t, h, "mcp/act/steps", `{"N":10000,"Each":5}`)
	other.CallID, other.MaySuspend = "3.1", true
	other.Progress = func(turn.ToolProgress) {
		select {
		case begun <- struct{}{}:
		default:
		}
	}
	_, cancel := async(t, h, other)
	defer cancel()
	receive(t, begun)

	r, err := h.Call(t.Context(), suspendable(t, h, "3.0"))
	require.NoError(t, err)
	assert.Empty(t, r.Elicitations, "a person was asked")
	assert.Contains(t, r.Text, "cannot ask: ")
	assert.Contains(t, r.Text, "max_concurrent_calls = 1")
	_, err = h.Call(t.Context(), suspendable(t, h, "3.2"))
	require.NoError(t, err)
	cancel()
	require.NoError(t, h.Close())
	for _, call := range []string{"3.0", "3.1", "3.2"} {
		assert.Equal(t, 1, strings.Count(log.String(), " call="+call+" "), "%s", log.String())
	}
}

// TestWithOneCallAtATimeEveryQuestionIsAsked checks the remedy that the error suggests to operators:
// max_concurrent_calls = 1.
func TestWithOneCallAtATimeEveryQuestionIsAsked(t *testing.T) {
	old := oldActor(t)
	old.MaxConcurrent = 1
	h := newHost(t, mcp.Options{}, old)
	first, next := suspendable(t, h, "3.0"), suspendable(t, h, "3.1")
	asked, err := h.Call(t.Context(), first)
	require.NoError(t, err)
	second, stop := async(t, h, next)
	defer stop()
	r, err := h.Call(t.Context(), continued(first, asked, accept("1", `{"colour":"red"}`)))
	require.NoError(t, err)
	assert.Equal(t, "accept red", r.Text)
	asked = receive(t, second).result
	r, err = h.Call(t.Context(), continued(next, asked, accept("1", `{"colour":"green"}`)))
	require.NoError(t, err)
	assert.Equal(t, "accept green", r.Text)
}
