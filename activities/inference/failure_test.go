package inference_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/inference"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows/turn"
)

func TestRefusalsAreClassifiedAndSayWhatToDo(t *testing.T) {
	body := func(code int, body string) fakellm.Reply { return fakellm.StatusBody(code, "application/json", body) }
	for name, c := range map[string]struct {
		reply fakellm.Reply
		code  turn.Code
		says  []string
	}{
		"key": {fakellm.Status(401, "invalid_api_key", "Incorrect API key provided: "+canary),
			turn.CodeLLMUnauthorized, []string{"401", "Incorrect API key", "Check the API key"}},
		"forbidden": {fakellm.Status(403, "x", "not for you"), turn.CodeLLMUnauthorized,
			[]string{"not for you", "API key"}},
		"model": {fakellm.Status(404, "model_not_found", "The model 'm' does not exist"), turn.CodeLLMRejected,
			[]string{"does not exist", "model's name and base_url"}},
		"context": {fakellm.Status(400, "context_length_exceeded",
			"This model's maximum context length is 8192 tokens."), turn.CodeContextOverflow,
			[]string{"8192", "max_history_messages"}},
		"too large": {body(413, `{}`), turn.CodeContextOverflow, []string{"413", "max_history_messages"}},
		"quota": {fakellm.Status(429, "insufficient_quota", "You exceeded your current quota."),
			turn.CodeLLMRejected, []string{"quota", "billing"}},
		"payment": {fakellm.Status(402, "x", "Insufficient Balance"), turn.CodeLLMRejected,
			[]string{"Insufficient Balance", "billing"}},
		"temperature": {fakellm.Status(400, "unsupported_value", "'temperature' does not support 0 with this model."),
			turn.CodeLLMRejected, []string{"temperature"}},
		"spend limit": {body(429, `{"type":"error","error":{"type":"rate_limit_error","message":"Limit reached.",`+
			`"details":{"error_code":"enforced_spend_limit_reached"}}}`).Header("X-Should-Retry", "true").RetryAfter("99999"),
			turn.CodeLLMRejected, []string{"Limit reached", "billing"}},
		"no retry wanted":       {fakellm.Status(429, "x", "Slow down.").Header("X-Should-Retry", "false"), turn.CodeLLMRejected, nil},
		"no retry of a failure": {fakellm.Status(500, "x", "boom").Header("X-Should-Retry", "false"), turn.CodeLLMRejected, nil},
		"a retry wanted":        {fakellm.Status(400, "x", "hm").Header("X-Should-Retry", "true"), turn.CodeLLMTransport, nil},
		"a retry, still a limit": {fakellm.Status(429, "x", "Slow down.").Header("X-Should-Retry", "true"),
			turn.CodeLLMRateLimited, nil},
		"no word about a retry": {fakellm.Status(500, "x", "boom").Header("X-Should-Retry", "maybe"), turn.CodeLLMTransport, nil},
		"rate": {fakellm.Status(429, "rate_limit_exceeded", "Slow down."), turn.CodeLLMRateLimited,
			[]string{"429", "Slow down"}},
		"request timeout": {body(408, ``), turn.CodeLLMTransport, []string{"408"}},
		"conflict":        {body(409, ``), turn.CodeLLMTransport, []string{"409"}},
		"too early":       {body(425, ``), turn.CodeLLMTransport, []string{"425"}},
		"server": {body(500, `{"error":{"message":"boom"}}`), turn.CodeLLMTransport,
			[]string{"could not answer (500): boom"}},
		"gateway": {fakellm.StatusBody(502, "text/html", "<html>Bad gateway</html>"), turn.CodeLLMTransport,
			[]string{"502"}},
		"overloaded": {body(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			turn.CodeLLMTransport, []string{"Overloaded"}},
		"Ollama's shape": {body(400, `{"error":"model is broken"}`), turn.CodeLLMRejected, []string{"model is broken"}},
		"vLLM's shape": {body(400, `{"object":"error","message":"bad thing","code":400}`), turn.CodeLLMRejected,
			[]string{"bad thing"}},
		"FastAPI's shape": {body(422, `{"detail":[{"msg":"field required"}]}`), turn.CodeLLMRejected,
			[]string{"field required"}},
		"Gemini's shape": {body(400, `[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]`),
			turn.CodeLLMRejected, []string{"API key not valid"}},
		"text": {fakellm.StatusBody(400, "text/plain", "no such thing"), turn.CodeLLMRejected,
			[]string{"no such thing"}},
		"redirect": {body(307, ``).Header("Location", "https://elsewhere.example/v1/chat/completions?k=1"),
			turn.CodeLLMRejected, []string{"307", "https://elsewhere.example/v1"}},
		"web page": {fakellm.StatusBody(200, "text/html", "<!doctype html><p>Welcome"), turn.CodeLLMRejected,
			[]string{"web page", "base_url"}},
		"error in stream": {fakellm.Raw(event(`{"choices":[{"delta":{"content":"a"}}]}`),
			event(`{"error":{"message":"upstream died","code":502}}`)), turn.CodeLLMTransport, []string{"upstream died"}},
		"limit in stream": {fakellm.Raw(event(`{"error":{"message":"too fast","code":429}}`)), turn.CodeLLMRateLimited,
			[]string{"too fast"}},
		"quota in stream": {fakellm.Raw(event(`{ "error": {"message":"empty","type":"insufficient_quota"}}`)),
			turn.CodeLLMRejected, []string{"empty"}},
		"refusal in stream": {fakellm.Raw(event(`{"error":{"message":"bad role","type":"invalid_request_error"}}`)),
			turn.CodeLLMRejected, []string{"bad role"}},
		"finish of error": {fakellm.Text("half").Finish("error"), turn.CodeLLMTransport, nil},
		"garbage": {fakellm.Raw("data: hello\n\ndata: [1]\n\n"), turn.CodeLLMTransport,
			[]string{"something other than a completion"}},
		"garbage JSON": {fakellm.Raw(event(`{"choices":"none"}`)), turn.CodeLLMTransport,
			[]string{"something other than a completion"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := infer(t, c.reply)
			e := refusal(t, err, c.code)
			for _, s := range c.says {
				assert.Contains(t, e.Message, s)
			}
		})
	}
}

func TestAProvidersMessageIsPrintable(t *testing.T) {
	_, _, err := infer(t, fakellm.Status(400, "x",
		"a\x1b]0;title\x07b\nc\u202Ed\x00 "+strings.Repeat("long ", 1000)+canary))
	e := refusal(t, err, turn.CodeLLMRejected)
	assert.Contains(t, e.Message, ": ab c d long")
	assert.Less(t, len(e.Message), 400)
	assert.Less(t, len(err.Error()), 900)
	assert.NotContains(t, err.Error(), "\x1b")
}

// TestACutLeavesNoBeginningOfTheKey checks that the key is redacted before a text is cut, so that no prefix of the key
// remains.
func TestACutLeavesNoBeginningOfTheKey(t *testing.T) {
	most := canary[:len(canary)-1]
	body := func(pad int) string { return `{"error":{"message":"x` + strings.Repeat(" ", pad) + canary + `"}}` }
	begin := len(`{"error":{"message":"x`)
	for name, r := range map[string]fakellm.Reply{
		"at the limit of a body": fakellm.StatusBody(400, "application/json", body(64<<10-begin-len(most))),
		"of a redirect's target": fakellm.StatusBody(307, "text/plain", "").
			Header("Location", "https://h/"+strings.Repeat("p", 100-len("https://h/…")-len(most))+canary),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := infer(t, r)
			assert.NotContains(t, fmt.Sprint(err), canary[:8])
		})
	}
}

func TestCutStreamsAreNoAnswers(t *testing.T) {
	for name, r := range map[string]fakellm.Reply{
		"before the first event":     fakellm.Text("one two three").CutAfter(0),
		"in the middle":              fakellm.Text("one two three").CutAfter(2),
		"before the finish reason":   fakellm.Text("one two three").CutAfter(4),
		"reset in the middle":        fakellm.Text("one two three").ResetAfter(2),
		"done without finish reason": fakellm.Text("one").Finish(""),
		"finish reason null":         fakellm.Text("one").Finish("null"),
		"nothing at all":             fakellm.Raw(""),
		"in the middle of an event": fakellm.Raw(event(`{"choices":[{"delta":{"content":"hi"}}]}`),
			`data: {"choices":[{"delta":{},"finish_rea`),
		"half a JSON object":      fakellm.StatusBody(200, "application/json", `{"choices":[{"message":{"content":"hal`),
		"in the middle of a call": fakellm.Call("a", `{"path":"x"}`).CutAfter(2),
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := infer(t, r)
			refusal(t, err, turn.CodeLLMTruncated)
			assert.Zero(t, c)
		})
	}
}

func TestRetryAfterIsReadAndCapped(t *testing.T) {
	limited := fakellm.Status(429, "rate_limit_exceeded", "slow down")
	soon := time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat)
	// skewed asks for a retry after 20 seconds, by a clock that differs from ours by off.
	skewed := func(off time.Duration) fakellm.Reply {
		theirs := time.Now().Add(off).UTC()
		return limited.Header("Date", theirs.Format(http.TimeFormat)).RetryAfter(
			theirs.Add(20 * time.Second).Format(http.TimeFormat))
	}
	const month = 31 * 24 * time.Hour // the longest that is believed
	for name, c := range map[string]struct {
		reply    fakellm.Reply
		from, to time.Duration
	}{
		"seconds":  {limited.RetryAfter("7"), 7 * time.Second, 7 * time.Second},
		"fraction": {limited.RetryAfter("1.5"), 1500 * time.Millisecond, 1500 * time.Millisecond},
		"milliseconds": {limited.RetryAfter("9").Header("Retry-After-Ms", "250"), 250 * time.Millisecond,
			250 * time.Millisecond},
		"date":         {limited.RetryAfter(soon), 20 * time.Second, 30 * time.Second},
		"clock ahead":  {skewed(time.Hour), 20 * time.Second, 20 * time.Second},
		"clock behind": {skewed(-time.Hour), 20 * time.Second, 20 * time.Second},
		"old date":     {limited.RetryAfter("Mon, 02 Jan 2006 15:04:05 GMT"), 0, 0},
		"far date":     {limited.RetryAfter("Mon, 02 Jan 2906 15:04:05 GMT"), month, month},
		"a day":        {limited.RetryAfter("86400"), 24 * time.Hour, 24 * time.Hour},
		"enormous":     {limited.RetryAfter("99999999999999999999999"), month, month},
		"infinite":     {limited.RetryAfter("Inf"), month, month},
		"negative":     {limited.RetryAfter("-5"), 0, 0},
		"not a number": {limited.RetryAfter("NaN"), 0, 0},
		"words":        {limited.RetryAfter("soon"), 0, 0},
		"overloaded":   {fakellm.Status(503, "x", "busy").RetryAfter("3"), 3 * time.Second, 3 * time.Second},
		"not retried":  {fakellm.Status(400, "x", "bad").RetryAfter("3"), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := infer(t, c.reply)
			var e *turn.Error
			require.ErrorAs(t, err, &e)
			assert.GreaterOrEqual(t, e.RetryAfter, c.from)
			assert.LessOrEqual(t, e.RetryAfter, c.to)
		})
	}
	_, _, err := infer(t, fakellm.Status(429, "insufficient_quota", "pay").RetryAfter("86400"))
	e := refusal(t, err, turn.CodeLLMRejected)
	assert.Zero(t, e.RetryAfter, "no turn waits for money")
	assert.True(t, e.OfModel)
	_, _, err = infer(t, fakellm.Status(500, "x", "boom").Header("X-Should-Retry", "false"))
	assert.True(t, refusal(t, err, turn.CodeLLMRejected).OfModel, "a fallback may not have the failure")
}

func TestADoorThatIsClosedIsNamed(t *testing.T) {
	const addr = "127.0.0.1:1"
	_, err := chatOf(t, "http://"+addr+"/v1").Infer(t.Context(), prompt("hello"), newRecorder())
	e := refusal(t, err, turn.CodeLLMTransport)
	assert.Contains(t, e.Message, addr)
	assert.Contains(t, e.Message, "is it running")

	_, _, err = infer(t, fakellm.Text("x").ResetAfter(-1))
	assert.Contains(t, refusal(t, err, turn.CodeLLMTransport).Message, "closed the connection")
}

func TestAnEndlessAnswerIsNotRead(t *testing.T) {
	for name, r := range map[string]fakellm.Reply{
		"stream":   fakellm.Huge(1 << 40),
		"one line": fakellm.StatusBody(200, "text/event-stream", "data: "+strings.Repeat("x", 2<<20)),
		"object": fakellm.StatusBody(200, "application/json",
			`{"choices":[{"message":{"content":"`+strings.Repeat("x", 2<<20)),
	} {
		t.Run(name, func(t *testing.T) {
			_, sink, err := infer(t, r, func(o *inference.Options) { o.MaxAnswerBytes = 1 << 20 })
			assert.Contains(t, refusal(t, err, turn.CodeLLMRejected).Message, "1048576 bytes")
			assert.Less(t, len(sink.all()), 2<<20)
		})
	}
	_, _, err := infer(t, fakellm.StatusBody(400, "text/plain", strings.Repeat("x", 10<<20)))
	assert.Less(t, len(err.Error()), 1000)
}

// TestDeadlinesAreDistinct covers the deadlines. Each scripted server exceeds exactly one of them.
func TestDeadlinesAreDistinct(t *testing.T) {
	const short = 50 * time.Millisecond
	for name, c := range map[string]struct {
		reply  fakellm.Reply
		change func(*inference.Options)
		says   string
	}{
		"first token, no header": {fakellm.Text("x").StallAfter(-1),
			func(o *inference.Options) { o.IdleTimeout = short }, "accepted the request"},
		"first token, header": {fakellm.Text("x").StallAfter(0),
			func(o *inference.Options) { o.IdleTimeout = short }, "accepted the request"},
		"first token, keep-alive": {fakellm.Text("x").KeepAlives(200).Delay(5 * time.Millisecond),
			func(o *inference.Options) { o.IdleTimeout = short }, "accepted the request"},
		"idle": {fakellm.Text("one two three").StallAfter(2),
			func(o *inference.Options) { o.IdleTimeout = short }, "in the middle of its answer"},
		"total": {fakellm.Text(strings.Repeat("w ", 1000)).Delay(5 * time.Millisecond),
			func(o *inference.Options) { o.TotalTimeout = 2 * short }, "total timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := infer(t, c.reply, c.change)
			e := refusal(t, err, turn.CodeLLMTransport)
			assert.Contains(t, e.Message, c.says)
			assert.NoError(t, t.Context().Err())
		})
	}
	t.Run("connect", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never completes a handshake
		require.NoError(t, err)
		defer l.Close()
		_, err = chatOf(t, "https://"+l.Addr().String(), func(o *inference.Options) { o.ConnectTimeout = short }).
			Infer(t.Context(), prompt("hello"), newRecorder())
		assert.Contains(t, refusal(t, err, turn.CodeLLMTransport).Message, "connecting to scripted took longer than 50ms")
	})
}

func TestPausesWithinTheDeadlinesAreNoFault(t *testing.T) {
	c, _, err := infer(t, fakellm.Text("a b c d e f").Delay(250*time.Millisecond), func(o *inference.Options) {
		o.IdleTimeout = time.Second // shorter than the whole answer
	})
	require.NoError(t, err)
	assert.Equal(t, "a b c d e f", c.Text)
}

func TestACallersCancelEndsTheRequestWithItsCause(t *testing.T) {
	gate := fakellm.NewGate()
	s := fakellm.Start(t, fakellm.Text("one two").Hold(2, gate))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user went home")
	go func() {
		<-gate.Reached()
		cancel(why)
	}()
	_, err := chatOf(t, s.URL()).Infer(ctx, prompt("hello"), newRecorder())
	require.ErrorIs(t, err, why)
	refusal(t, err, turn.CodeLLMTransport)
	require.NoError(t, s.Await(t.Context(), func(rs []fakellm.Request) bool { return rs[0].Outcome == fakellm.Aborted }))
}

func TestACallersTypedCauseKeepsItsCode(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Millisecond,
		turn.NewError(turn.CodeLimitExceeded, nil, "out of time"))
	defer cancel()
	s := fakellm.Start(t, fakellm.Text("x").StallAfter(1))
	_, err := chatOf(t, s.URL()).Infer(ctx, prompt("hello"), newRecorder())
	assert.Equal(t, "out of time", refusal(t, err, turn.CodeLimitExceeded).Message)
}

func TestNothingIsSentTwice(t *testing.T) {
	for _, r := range []fakellm.Reply{
		fakellm.Status(429, "x", "slow"), fakellm.Status(500, "x", "boom"), fakellm.Text("a b").CutAfter(1),
		fakellm.Text("a").ResetAfter(-1), fakellm.Status(400, "x", "bad"),
	} {
		s := fakellm.Start(t, r)
		_, err := chatOf(t, s.URL()).Infer(t.Context(), prompt("hello"), newRecorder())
		require.Error(t, err)
		assert.Len(t, s.Requests(), 1)
	}
}

// TestABegunAnswerIsNotRequestedAgain checks that an error in the stream leads to another request only if it comes
// before the answer, whatever status and message it carries: the provider bills an answer that has begun.
func TestABegunAnswerIsNotRequestedAgain(t *testing.T) {
	half := event(`{"choices":[{"delta":{"content":"half"}}]}`)
	limited := prompt("hello")
	limited.MaxTokens = 50
	once := func(first ...string) fakellm.Script {
		return fakellm.Func(func(r fakellm.Request) fakellm.Reply {
			if r.Index == 0 {
				return fakellm.Raw(first...)
			}
			return fakellm.Text("whole")
		})
	}
	for name, c := range map[string]struct {
		prompt turn.Prompt
		failed string
	}{
		"images": {showing("gpt-4o", picture),
			`{"error":{"code":400,"message":"Output blocked by content filtering policy"}}`},
		"audio":   {showing("gpt-audio", sound), `{"error":{"code":415,"message":"audio content is not supported"}}`},
		"options": {prompt("hello"), `{"error":{"code":400,"message":"unknown parameter stream_options"}}`},
		"tokens":  {limited, `{"error":{"code":422,"message":"use max_completion_tokens"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakellm.Start(t, once(half, event(c.failed)))
			sink := newRecorder()
			_, err := chatOf(t, s.URL()).Infer(t.Context(), c.prompt, sink)
			refusal(t, err, turn.CodeLLMRejected)
			assert.Len(t, s.Requests(), 1)
			assert.Equal(t, "half", sink.all())

			s = fakellm.Start(t, once(event(c.failed)))
			done, err := chatOf(t, s.URL()).Infer(t.Context(), c.prompt, newRecorder())
			require.NoError(t, err, "the endpoint refused the request before it answered")
			assert.Equal(t, "whole", done.Text)
		})
	}
}

func TestWhatTheLibraryRefusesIsExplained(t *testing.T) {
	s := fakellm.Start(t, fakellm.Text("x"))
	p := prompt("hello")
	p.Model, p.Tools = "gpt-6-astra", []turn.WireTool{{Name: "a", Schema: []byte(`{}`)}}
	_, err := chatOf(t, s.URL()).Infer(t.Context(), p, newRecorder())
	assert.Contains(t, refusal(t, err, turn.CodeLLMRejected).Message, `"tool_use"`)

	p = prompt("hello")
	p.Tools = []turn.WireTool{{Name: "a", Schema: []byte(`{broken`)}}
	_, err = chatOf(t, s.URL()).Infer(t.Context(), p, newRecorder())
	assert.Contains(t, refusal(t, err, turn.CodeLLMRejected).Message, "could not be built")
	assert.Empty(t, s.Requests())
}

func TestTheKeyIsInTheHeaderAndNowhereElse(t *testing.T) {
	s := fakellm.Start(t, fakellm.Text("x"))
	_, err := chatOf(t, s.URL()).Infer(t.Context(), prompt("hello"), newRecorder())
	require.NoError(t, err)
	r := s.Requests()[0]
	assert.Equal(t, "Bearer "+canary, r.Header.Get("Authorization"))
	assert.NotContains(t, string(r.Body), canary)

	_, err = chatOf(t, s.URL(), func(o *inference.Options) { o.APIKey = "" }).Infer(t.Context(), prompt("hello"),
		newRecorder())
	require.NoError(t, err)
	assert.Empty(t, s.Requests()[1].Header.Get("Authorization"))

	leaky := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("proxy refused header %q", r.Header.Get("Authorization"))
	})}
	_, err = chatOf(t, s.URL(), func(o *inference.Options) { o.HTTPClient = leaky }).Infer(t.Context(), prompt("hello"),
		newRecorder())
	refusal(t, err, turn.CodeLLMTransport)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestBadOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]inference.Options{
		"scheme":      {BaseURL: "ftp://x/v1"},
		"no host":     {BaseURL: "http://"},
		"no scheme":   {BaseURL: "localhost:11434/v1"},
		"credentials": {BaseURL: "https://u:" + canary + "@h/v1"},
		"query":       {BaseURL: "https://h/v1?key=" + canary},
		"not a URL":   {BaseURL: "http://[" + canary},
		"key":         {APIKey: canary + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := inference.New(o)
			refusal(t, err, turn.CodeConfigInvalid)
		})
	}
}
