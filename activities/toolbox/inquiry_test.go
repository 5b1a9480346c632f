package toolbox_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/workflows/turn"
)

// asking returns a call of the tool that sends elicitations. ask is their JSON, by key.
func asking(t *testing.T, h *toolbox.Host, rounds int, ask string) turn.ToolRequest {
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
	for name, server := range map[string]toolbox.Server{"stdio": stdioActor(t, "act"), "http": httpActor(t, "act")} {
		t.Run(name, func(t *testing.T) {
			before := newHost(t, toolbox.Options{}, nil, server)
			req := asking(t, before, 2, `{"c":`+colourForm+`}`)
			r, err := before.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Empty(t, r.Outcome, "it is not over")
			require.Len(t, r.Elicitations, 1)
			assert.Equal(t, "Which colour?", r.Elicitations[0].Message)
			assert.NotContains(t, string(r.Elicitations[0].Schema), `\u0007`)
			require.NoError(t, before.Close())

			h := newHost(t, toolbox.Options{}, nil, server)
			req.Attempt, req.Continuation, req.Responses = 2, r.Continuation, []turn.ElicitationResponse{accept("c", `{"colour":"red"}`)}
			r, err = h.Call(t.Context(), req)
			require.NoError(t, err)
			require.Len(t, r.Elicitations, 1, "it asks once more")
			req.Attempt, req.Continuation, req.Responses = 3, r.Continuation, []turn.ElicitationResponse{{Key: "c", Action: turn.ElicitationDecline}}
			r, err = h.Call(t.Context(), req)
			require.NoError(t, err)
			assert.Equal(t, turn.OutcomeOK, r.Outcome)
			assert.Equal(t, `heard state-1|{"c":{"action":"accept","content":{"colour":"red","size":3}}}|{"c":{"action":"decline"}}`, r.Text,
				"the answers, with the form's defaults, and the server's own state")
		})
	}
}

func TestAReplyThatDoesNotFitIsAskedForAgainAndNotSent(t *testing.T) {
	h := newHost(t, toolbox.Options{}, nil, httpActor(t, "act"))
	req := asking(t, h, 1, `{"a":`+colourForm+`,"b":{"message":"B?","requestedSchema":{"type":"object","properties":{"yes":{"type":"boolean"}}}}}`)
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, r.Elicitations, 2)

	for _, bad := range []string{`{"colour":"blue"}`, `{}`, `{"colour":1}`, `{"colour":"red","size":0}`, `[]`, `null`, ``, `{"colour"`} {
		req.Continuation, req.Responses = r.Continuation, []turn.ElicitationResponse{accept("a", bad), accept("b", `{"yes":true}`)}
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
	h := newHost(t, toolbox.Options{}, nil, httpActor(t, "act"))
	req := asking(t, h, 1, `{"u":{"mode":"url","message":"Log in.","url":"https://example.com/login?a=b","elicitationId":"1"}}`)
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

func TestWhatNobodyCanBeAskedEndsTheCall(t *testing.T) {
	server := httpActor(t, "act")
	server.Headers = map[string]string{"Authorization": "Bearer canary-token-123"}
	h := newHost(t, toolbox.Options{}, nil, server)
	form := func(field string) string {
		return `{"Rounds":1,"Ask":{"a":{"message":"A?","requestedSchema":{"type":"object","properties":{"f":` + field + `}}}}}`
	}
	many := make([]string, 9)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":{"message":"?"}`, i)
	}
	for arguments, want := range map[string]string{
		`{"Rounds":1,"Model":true}`: "Everturn does not support sampling", `{"Rounds":1,"Roots":true}`: "root folders",
		`{"Rounds":1,"Ask":{` + strings.Join(many, ",") + `}}`:                                             "9 things at once",
		`{"Rounds":1,"State":"` + strings.Repeat("x", 2<<20) + `","Ask":{"a":{"message":"?"}}}`:            "2097",
		`{"Rounds":1,"State":"has canary-token-123 in it","Ask":{"a":{"message":"?"}}}`:                    "secret of its own configuration",
		`{"Rounds":1,"Ask":{"\u0007":{"message":"?"}}}`:                                                    "not printable",
		`{"Rounds":1,"Ask":{"a":{"mode":"url","url":"javascript:alert(1)"}}}`:                              "plain web address",
		`{"Rounds":1,"Ask":{"a":{"mode":"url","url":"https://user@example.com/"}}}`:                        "plain web address",
		`{"Rounds":1,"Ask":{"a":{"mode":"url","url":"https://example.com/?t=canary-token-123"}}}`:          "holds a secret",
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

func TestAServerThatAsksForEverIsLeft(t *testing.T) {
	h := newHost(t, toolbox.Options{}, nil, httpActor(t, "act"))
	req := asking(t, h, 1000, `{"a":{"message":"Again?"}}`)
	for round := 1; ; round++ {
		require.LessOrEqual(t, round, 20)
		r, err := h.Call(t.Context(), req)
		require.NoError(t, err)
		if r.Outcome != "" {
			assert.Contains(t, r.Text, "enough")
			return
		}
		req.Continuation, req.Responses = r.Continuation, []turn.ElicitationResponse{{Key: "a", Action: turn.ElicitationCancel}}
	}
}

func TestABrokenContinuationSendsNothing(t *testing.T) {
	h := newHost(t, toolbox.Options{}, nil, httpActor(t, "act"))
	req := asking(t, h, 1, `{"a":{"message":"?"}}`)
	for _, c := range []string{`x`, `{}`, `{"v":2,"elicitations":[{"key":"a"}]}`, `{"v":1}`, `null`} {
		req.Continuation = []byte(c)
		r, err := h.Call(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, turn.OutcomeDenied, r.Outcome)
		assert.Contains(t, r.Text, "Nothing was sent")
	}
}

// TestAnOlderServerMayHoldACallOnlyWhereItIsAllowed checks that a server of an older protocol, which holds its call
// during an elicitation, may do so only if the operator has set elicitation_timeout.
func TestAnOlderServerMayHoldACallOnlyWhereItIsAllowed(t *testing.T) {
	old := stdioActor(t, "act")
	old.Env["ACT_OLD"] = "yes"
	h := newHost(t, toolbox.Options{}, nil, old)
	assert.Contains(t, call(t, h, "mcp/act/interrupt", `{}`).Text, "cannot ask", "it is not told that it may")

	old.HoldQuestions = 20 * time.Second
	h = newHost(t, toolbox.Options{}, nil, old)
	assert.Contains(t, call(t, h, "mcp/act/interrupt", `{}`).Text, "Nobody was asked: no call is under way whose user could be asked")

	req := request(t, h, "mcp/act/interrupt", `{}`)
	req.Timeout = 300 * time.Millisecond
	req.Hold = func(q turn.Elicitation, done <-chan struct{}) (turn.ElicitationResponse, error) {
		assert.Equal(t, "Which colour?", q.Message)
		select {
		case <-time.After(600 * time.Millisecond): // longer than the call's timeout
			return accept("1", `{"colour":"red"}`), nil
		case <-done:
			return turn.ElicitationResponse{}, assert.AnError
		}
	}
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, "accept red", r.Text, "a person's time is not the call's")

	old.HoldQuestions = 100 * time.Millisecond
	h = newHost(t, toolbox.Options{}, nil, old)
	req = request(t, h, "mcp/act/interrupt", `{}`)
	req.Hold = func(_ turn.Elicitation, done <-chan struct{}) (turn.ElicitationResponse, error) {
		<-done
		return accept("1", `{"colour":"red"}`), nil
	}
	r, err = h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, "accept red", r.Text, "it was said in the last moment")

	req = request(t, h, "mcp/act/interrupt", `{}`)
	gone := make(chan struct{})
	req.Hold = func(_ turn.Elicitation, done <-chan struct{}) (turn.ElicitationResponse, error) {
		<-done
		close(gone)
		return turn.ElicitationResponse{}, assert.AnError
	}
	r, err = h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, "cancel <nil>", r.Text, "the time is over")
	receive(t, gone)
}

// TestAQuestionOfOneOfSeveralCallsIsRefusedAloud covers elicitations of older protocols, which do not name their call.
// If several calls are running, the host asks no user and does not invent a response.
func TestAQuestionOfOneOfSeveralCallsIsRefusedAloud(t *testing.T) {
	old := stdioActor(t, "act")
	old.Env["ACT_OLD"], old.HoldQuestions = "yes", 20*time.Second
	var log strings.Builder
	h := newHost(t, toolbox.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil, old)
	never := func(turn.Elicitation, <-chan struct{}) (turn.ElicitationResponse, error) {
		t.Error("a person was asked")
		return turn.ElicitationResponse{}, assert.AnError
	}
	begun := make(chan struct{}, 1)
	other := request(t, h, "mcp/act/steps", `{"N":10000,"Each":5}`)
	other.CallID, other.Hold = "3.1", never
	other.Progress = func(turn.ToolProgress) {
		select {
		case begun <- struct{}{}:
		default:
		}
	}
	_, cancel := async(t, h, other)
	defer cancel()
	receive(t, begun)

	req := request(t, h, "mcp/act/interrupt", `{}`)
	req.Hold = never
	r, err := h.Call(t.Context(), req)
	require.NoError(t, err)
	assert.Contains(t, r.Text, "cannot ask: ")
	assert.Contains(t, r.Text, "Nobody was asked: it is not known to which of the 2 calls under way this belongs: max_concurrent_calls = 1")
	req.CallID = "3.2"
	_, err = h.Call(t.Context(), req)
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
	old := stdioActor(t, "act")
	old.Env["ACT_OLD"], old.HoldQuestions, old.MaxConcurrent = "yes", 20*time.Second, 1
	h := newHost(t, toolbox.Options{}, nil, old)
	req := request(t, h, "mcp/act/interrupt", `{}`)
	asked, decided := make(chan struct{}), make(chan struct{})
	req.Hold = func(turn.Elicitation, <-chan struct{}) (turn.ElicitationResponse, error) {
		close(asked)
		<-decided
		return accept("1", `{"colour":"red"}`), nil
	}
	first, stop := async(t, h, req)
	defer stop()
	receive(t, asked)
	req.CallID = "3.1"
	req.Hold = func(turn.Elicitation, <-chan struct{}) (turn.ElicitationResponse, error) {
		return accept("1", `{"colour":"green"}`), nil
	}
	second, stop := async(t, h, req)
	defer stop()
	close(decided)
	assert.Equal(t, "accept red", receive(t, first).result.Text)
	assert.Equal(t, "accept green", receive(t, second).result.Text)
}
