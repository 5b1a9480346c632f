package mcp_test

import (
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

// user responds to elicitations in the middle of calls.
type user struct {
	asked     chan turn.Elicitation
	responses chan turn.ElicitationResponse
}

func newUser() user { return user{make(chan turn.Elicitation), make(chan turn.ElicitationResponse)} }

// elicit is a turn.ToolRequest.Elicit.
func (u user) elicit(q turn.Elicitation, end <-chan struct{}) turn.ElicitationResponse {
	select {
	case u.asked <- q:
	case <-end:
	}
	select {
	case r := <-u.responses:
		return r
	case <-end:
		return turn.ElicitationResponse{Key: q.Key, Action: turn.ElicitationCancel}
	}
}

// interrupting returns a call of the tool that elicits a colour from the user in the middle of the call.
func interrupting(t *testing.T, h *mcp.Host, callID string, u user) turn.ToolRequest {
	t.Helper()
	req := request(t, h, "mcp/act/interrupt", `{}`)
	req.CallID, req.Elicit = callID, u.elicit
	return req
}

// TestAnOlderServerMayElicitOnlyIfAllowed checks that a server of an older protocol may send elicitations in the middle
// of a call only if the operator has set timeouts.elicitation and the caller can ask the user.
func TestAnOlderServerMayElicitOnlyIfAllowed(t *testing.T) {
	old := oldActor(t)
	h := newHost(t, mcp.Options{}, old)
	assert.Contains(t, call(t, h, "mcp/act/interrupt", `{}`).Text, "no call is under way whose user could be asked")
	old.ElicitationTimeout = 0
	h = newHost(t, mcp.Options{}, old)
	r, err := h.Call(t.Context(), interrupting(t, h, "3.0", newUser()))
	require.NoError(t, err)
	assert.Contains(t, r.Text, "cannot ask", "the server does not know the capability")
}

// TestACallWaitsForTheResponseToItsElicitation checks that the time until the response counts against no timeout, that
// a response that does not fit is elicited again, and that the server gets one response.
func TestACallWaitsForTheResponseToItsElicitation(t *testing.T) {
	h := newHost(t, mcp.Options{}, oldActor(t))
	u := newUser()
	req := interrupting(t, h, "3.0", u)
	req.Timeout = time.Second
	call, stop := async(t, h, req)
	defer stop()
	assert.Equal(t, "Which colour?", receive(t, u.asked).Message)
	time.Sleep(2 * req.Timeout)
	u.responses <- accept("1", `{"colour":1}`)
	assert.Contains(t, receive(t, u.asked).Message, "does not fit")
	u.responses <- accept("1", `{"colour":"red"}`)
	end := receive(t, call)
	require.NoError(t, end.err)
	assert.Equal(t, "accept red", end.result.Text)
}

// TestAnElicitationEndsWithItsServer checks that the user is no longer asked when the server of the call is gone, and
// that the outcome of the call is unknown.
func TestAnElicitationEndsWithItsServer(t *testing.T) {
	old := oldActor(t)
	file := filepath.Join(t.TempDir(), "pid")
	old.Command, old.Args = "sh", []string{"-c", `echo $$ > "$0"; exec "$1"`, file, old.Command}
	h := newHost(t, mcp.Options{}, old)
	u, ended := newUser(), make(chan struct{})
	req := interrupting(t, h, "3.0", u)
	req.Elicit = func(q turn.Elicitation, end <-chan struct{}) turn.ElicitationResponse {
		defer close(ended)
		return u.elicit(q, end)
	}
	call, stop := async(t, h, req)
	defer stop()
	receive(t, u.asked)
	pid, err := os.ReadFile(file)
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
	receive(t, ended)
	end := receive(t, call)
	require.NoError(t, end.err)
	assert.Equal(t, turn.OutcomeUnknown, end.result.Outcome)
	assert.Contains(t, end.result.Text, "connection to it was lost")
}

// TestAnElicitationEndsWithItsCall checks that the user is no longer asked when the call is cancelled.
func TestAnElicitationEndsWithItsCall(t *testing.T) {
	h := newHost(t, mcp.Options{}, oldActor(t))
	u := newUser()
	call, stop := async(t, h, interrupting(t, h, "3.0", u))
	receive(t, u.asked)
	stop()
	end := receive(t, call)
	require.NoError(t, end.err)
	assert.Equal(t, turn.OutcomeUnknown, end.result.Outcome)
	assert.Contains(t, end.result.Text, "cancelled")
}

// TestAQuestionOfOneOfSeveralCallsIsRefusedAloud covers elicitations of older protocols, which do not name their call.
// If several calls are running, the host asks no user and does not invent a response.
func TestAQuestionOfOneOfSeveralCallsIsRefusedAloud(t *testing.T) {
	var log strings.Builder
	h := newHost(t, mcp.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, oldActor(t))
	begun := make(chan struct{}, 1)
	other := request(t, h, "mcp/act/steps", `{"N":10000,"Each":5}`)
	other.CallID, other.Elicit = "3.1", newUser().elicit
	other.Progress = func(turn.ToolProgress) {
		select {
		case begun <- struct{}{}:
		default:
		}
	}
	_, cancel := async(t, h, other)
	defer cancel()
	receive(t, begun)

	r, err := h.Call(t.Context(), interrupting(t, h, "3.0", newUser()))
	require.NoError(t, err)
	assert.Contains(t, r.Text, "cannot ask: ")
	assert.Contains(t, r.Text, "max_concurrent_calls = 1")
	_, err = h.Call(t.Context(), interrupting(t, h, "3.2", newUser()))
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
	u := newUser()
	first, stopFirst := async(t, h, interrupting(t, h, "3.0", u))
	defer stopFirst()
	receive(t, u.asked)
	second, stopSecond := async(t, h, interrupting(t, h, "3.1", u))
	defer stopSecond()
	u.responses <- accept("1", `{"colour":"red"}`)
	assert.Equal(t, "accept red", receive(t, first).result.Text)
	receive(t, u.asked)
	u.responses <- accept("1", `{"colour":"green"}`)
	assert.Equal(t, "accept green", receive(t, second).result.Text)
}
