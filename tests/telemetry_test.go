package tests

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// collector is an OpenTelemetry collector over HTTP.
type collector struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	raw   bytes.Buffer // all requests
	spans []*tracepb.Span
	auth  string
}

func newCollector(t *testing.T) *collector {
	c := &collector{t: t}
	server := httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) receive(_ http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			return // the sender was killed
		}
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return // the sender was killed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(b)
	c.auth = req.Header.Get("Authorization")
	if req.URL.Path != "/v1/traces" {
		return
	}
	var got collectorpb.ExportTraceServiceRequest
	assert.NoError(c.t, proto.Unmarshal(b, &got))
	for _, r := range got.ResourceSpans {
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// trace waits for the trace of a turn and returns its spans, the root first and then in the order of their times.
func (c *collector) trace(turnID string) []*tracepb.Span {
	c.t.Helper()
	sum := sha256.Sum256([]byte(turnID))
	var found []*tracepb.Span
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = nil
		for _, s := range c.spans {
			if bytes.Equal(s.TraceId, sum[:16]) {
				found = append(found, s)
			}
		}
		return slices.ContainsFunc(found, isRoot)
	}, within, 20*time.Millisecond, "the turn's trace never arrived")
	slices.SortFunc(found, func(a, b *tracepb.Span) int {
		if isRoot(a) != isRoot(b) && isRoot(a) {
			return -1
		} else if isRoot(b) {
			return 1
		}
		return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano))
	})
	return found
}

func isRoot(s *tracepb.Span) bool { return len(s.ParentSpanId) == 0 }

// all returns everything that was sent.
func (c *collector) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

func (c *collector) authorization() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.auth
}

// attribute returns a span's attribute as text.
func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// tree checks that the spans are a root and its children, each once, and returns their names with step and attempt.
func tree(t *testing.T, spans []*tracepb.Span) (names []string) {
	t.Helper()
	ids := map[string]bool{}
	for i, s := range spans {
		assert.False(t, ids[string(s.SpanId)], "%s is there twice", s.Name)
		ids[string(s.SpanId)] = true
		assert.Equal(t, i == 0, isRoot(s))
		if i > 0 {
			assert.Equal(t, spans[0].SpanId, s.ParentSpanId, s.Name)
		}
		assert.GreaterOrEqual(t, s.EndTimeUnixNano, s.StartTimeUnixNano)
		name := s.Name
		for _, key := range []string{"everturn.step", "everturn.attempt"} {
			name += " " + strings.Trim(attribute(s, key), `int_value:" `)
		}
		names = append(names, strings.TrimSpace(name))
	}
	slices.Sort(names[1:])
	return names
}

// traced starts a worker process that exports to the collector.
func (e *env) traced(c *collector, environ ...string) *process {
	e.t.Helper()
	cmd := exec.Command(binary(e.t, "./worker"), "--config", configFile(e.t, e.cfg))
	cmd.Env = append(append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+c.url, "OTEL_BSP_SCHEDULE_DELAY=20",
		"OTEL_METRIC_EXPORT_INTERVAL=200"), environ...)
	return e.run(cmd)
}

const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var twoTools = fakellm.Calls(
	fakellm.ToolCall{Name: "local_list_files", Arguments: `{}`},
	fakellm.ToolCall{Name: "mcp_ledger_append", Arguments: `{"text":"canary-arguments","block":"after"}`},
)

// TestATurnHasOneTrace plays a turn with two tools. A query after the turn's end and a worker with an empty cache,
// which replay the workflow, add no span.
func TestATurnHasOneTrace(t *testing.T) {
	t.Parallel()
	c, l := newCollector(t), newEffectServer(t)
	e := newEnv(t, fakellm.Steps(twoTools, fakellm.Text("canary-answer")), l.host(config.MCPTool{}))
	l.open()
	first := e.traced(c)
	run := e.start(t.Name(), workflows.Input{Message: &workflows.Message{Text: "canary-question", TraceParent: caller}})
	require.Equal(t, "canary-answer", e.result(run).Answer)
	spans := c.trace(run.GetRunID())
	assert.Equal(t, []string{"invoke_agent default", "chat scripted 1 1", "chat scripted 2 1",
		"execute_tool local/list_files 1 1", "execute_tool mcp/ledger/append 1 1"}, tree(t, spans))
	root := spans[0]
	assert.Contains(t, attribute(root, "gen_ai.conversation.id"), t.Name())
	assert.Contains(t, attribute(root, "everturn.turn.id"), run.GetRunID())
	assert.Contains(t, attribute(root, "gen_ai.usage.input_tokens"), "int_value")
	require.Len(t, root.Links, 1)
	assert.Equal(t, caller[3:35], hex.EncodeToString(root.Links[0].TraceId))
	first.signal(syscall.SIGTERM)
	first.exit()
	second := e.traced(c)
	_, err := e.client.QueryWorkflow(t.Context(), t.Name(), run.GetRunID(), workflows.StateQuery)
	require.NoError(t, err)
	second.signal(syscall.SIGTERM)
	second.exit()
	assert.Len(t, c.trace(run.GetRunID()), 5)
	assert.NotContains(t, c.all(), "canary", "contents are exported only on request")
}

func TestTheTraceOfATurnThatLostItsWorkerIsWhole(t *testing.T) {
	t.Parallel()
	c, l, gate := newCollector(t), newEffectServer(t), fakellm.NewGate()
	e := newEnv(t, fakellm.Steps(twoTools,
		fakellm.Attempts(fakellm.Text("Lost with its worker.").Hold(4, gate), fakellm.Text("Done."))),
		l.host(config.MCPTool{}))
	l.open()
	first := e.traced(c)
	run := e.begin(t.Name(), "Do both.", nil)
	e.reach(gate)
	first.kill()
	e.traced(c)
	require.Equal(t, "Done.", e.result(run).Answer)
	assert.Equal(t, []string{"invoke_agent default", "chat scripted 1 1", "chat scripted 2 2",
		"execute_tool local/list_files 1 1", "execute_tool mcp/ledger/append 1 1"}, tree(t, c.trace(run.GetRunID())))
}

// TestATerminatedTurnIsTracedWhenItIsClosed ends a turn from outside. The session's next turn closes it.
func TestATerminatedTurnIsTracedWhenItIsClosed(t *testing.T) {
	t.Parallel()
	c, gate := newCollector(t), fakellm.NewGate()
	defer gate.Release()
	e := newEnv(t, fakellm.Cases(fakellm.When("first", fakellm.Text("Never finished.").Hold(3, gate)),
		fakellm.When("second", fakellm.Text("Done."))))
	e.traced(c)
	run := e.begin(t.Name(), "The first question.", nil)
	e.reach(gate)
	endings["terminate"].end(e, run)
	require.Error(t, e.over(run))
	require.Equal(t, "Done.", e.ask(t.Name(), "The second question.").Answer)
	spans := c.trace(run.GetRunID())
	require.Equal(t, []string{"invoke_agent default", "chat scripted 1 1"}, tree(t, spans))
	for _, s := range spans {
		assert.Contains(t, attribute(s, "error.type"), "terminated")
	}
}

// TestExportedContentsHaveNoSecrets exports contents, and checks that secrets are redacted in them.
func TestExportedContentsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	c, l := newCollector(t), newEffectServer(t)
	e := newEnv(t, fakellm.Steps(twoTools, fakellm.Text("the answer")), l.host(config.MCPTool{}), func(c *config.Config) {
		c.Runtime.Redact = []string{"canary-[a-z]+"}
	})
	l.open()
	e.traced(c, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20the-token-of-the-collector")
	sender := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{8}})
	sent, err := e.people().Send(trace.ContextWithSpanContext(t.Context(), sender), client.SendInput{Session: t.Name(),
		Message: turn.UserMessage{Text: "the question and canary-question, the-token-of-the-collector"}})
	require.NoError(t, err)
	spans := c.trace(sent.ID)
	require.Len(t, spans[0].Links, 1)
	assert.Equal(t, sender.TraceID().String(), hex.EncodeToString(spans[0].Links[0].TraceId))
	text := ""
	for _, s := range spans {
		for _, key := range []string{"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments",
			"gen_ai.tool.call.result"} {
			text += attribute(s, key) + "\n"
		}
	}
	for _, part := range []string{"the question and [redacted], [redacted]", "the answer", "appended [redacted]"} {
		assert.Contains(t, text, part)
	}
	assert.NotContains(t, c.all(), "canary")
	assert.NotContains(t, c.all(), "the-token")
	assert.Equal(t, "Bearer the-token-of-the-collector", c.authorization())
}

// TestTheSamplerDecidesByTrace checks that a worker which samples nothing exports nothing.
func TestTheSamplerDecidesByTrace(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	e := newEnv(t, fakellm.Text("Done."))
	p := e.traced(c, "OTEL_METRICS_EXPORTER=none", "OTEL_TRACES_SAMPLER=parentbased_traceidratio",
		"OTEL_TRACES_SAMPLER_ARG=0")
	require.Equal(t, "Done.", e.ask(t.Name(), "Hello?").Answer)
	p.signal(syscall.SIGTERM)
	p.exit()
	assert.Empty(t, c.all())
}

// prometheusAt returns the variables of a worker that serves Prometheus at an address.
func prometheusAt(t *testing.T, address string) []string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return []string{"OTEL_METRICS_EXPORTER=prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST=" + host,
		"OTEL_EXPORTER_PROMETHEUS_PORT=" + port}
}

// freeAddress returns an address that a worker can listen on.
// TestTelemetryNamesTheModelThatAnswered plays a turn whose fallback takes over, and one with a model of its message.
func TestTelemetryNamesTheModelThatAnswered(t *testing.T) {
	t.Parallel()
	c, address := newCollector(t), freeAddress(t)
	e := newEnv(t, byModel(map[string]fakellm.Script{
		"first": fakellm.Status(http.StatusNotFound, "model_not_found", "no such model"),
		"same":  fakellm.Text("Yes.").Usage(7, 2, 0), "third": fakellm.Text("Yes.").Usage(5, 1, 0),
	}), fallingBack, func(c *config.Config) {
		c.Providers = []config.ModelProvider{{ID: "mine", API: turn.APIChat, BaseURL: c.LLM.BaseURL}}
		c.LLM.Fallback, c.Tuning.RetryMax = []string{"mine:same"}, nil // no key says how often to retry
	})
	e.traced(c, prometheusAt(t, address)...)
	run := e.begin(t.Name(), "Is it you?", nil)
	require.Equal(t, "same", e.result(run).Model)
	other := e.start(t.Name()+"-2", workflows.Input{Message: &workflows.Message{Text: "And you?", Model: "openai:third"}})
	require.Equal(t, "third", e.result(other).Model)

	for turnID, want := range map[string][2]string{run.GetRunID(): {"mine", "same"}, other.GetRunID(): {"openai", "third"}} {
		for _, span := range c.trace(turnID) {
			assert.Contains(t, attribute(span, "gen_ai.provider.name"), `"`+want[0]+`"`, span.Name)
			assert.Contains(t, attribute(span, "gen_ai.request.model"), `"`+want[1]+`"`, span.Name)
		}
	}
	metrics := scrape(t, address)
	for _, line := range []string{
		`gen_ai_client_operation_duration_seconds_count{error_type="llm_rejected",gen_ai_operation_name="chat",` +
			`gen_ai_provider_name="openai",gen_ai_request_model="first"} 1`,
		`gen_ai_client_operation_time_to_first_chunk_seconds_count{gen_ai_operation_name="chat",` +
			`gen_ai_provider_name="mine",gen_ai_request_model="same"} 1`,
		`gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_provider_name="mine",` +
			`gen_ai_request_model="same",gen_ai_token_type="input"} 7`,
		`gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_provider_name="openai",` +
			`gen_ai_request_model="third",gen_ai_token_type="output"} 1`,
	} {
		assert.Contains(t, metrics, line)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestDashboardsAndAlertsUseMetricsThatExist parses every expression of deploy with Prometheus's own parser, and looks
// for its metrics in a scrape of a worker that has played turns.
func TestDashboardsAndAlertsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	l, address := newEffectServer(t), freeAddress(t)
	e := newEnv(t, fakellm.Cases(
		fakellm.When("list", fakellm.Steps(fakellm.Call("local_list_files", `{}`), fakellm.Text("None."))),
		fakellm.When("append", fakellm.Steps(fakellm.Call("mcp_ledger_append", `{"text":"x"}`), fakellm.Text("Done."))),
		fakellm.When("wait", fakellm.Steps(fakellm.Call("local_read_file", `{"path":"a"}`), fakellm.Text("Done."))),
		fakellm.When("fail", fakellm.Status(401, "invalid_api_key", "canary-failure")),
	), l.host(config.MCPTool{}), func(c *config.Config) {
		c.Policy.Ask = []string{"local/read_file"}
		c.Worker.SeparateQueues = true // the SDK measures no time in the queue of activities that it gets eagerly
	})
	e.open = true
	cmd := exec.Command(binary(t, "./worker"), "--config", configFile(t, e.cfg))
	cmd.Env = append(os.Environ(), prometheusAt(t, address)...)
	p := e.run(cmd)
	secret := "canary-session"
	e.ask(secret+"-1", "list")
	e.ask(secret+"-2", "append")
	var res workflows.Result
	require.Error(t, e.begin(secret+"-3", "fail", nil).Get(t.Context(), &res))
	waiting := e.begin(secret+"-4", "wait", nil)
	e.waits(waiting.GetRunID(), 1)
	denied := e.begin(secret+"-5", "wait", nil)
	w := e.waits(denied.GetRunID(), 1)[0]
	_, err := e.people().Deny(t.Context(),
		client.DecideInput{Session: secret + "-5", Request: w.ID, ArgumentsHash: w.ArgumentsHash, By: "ann"})
	require.NoError(t, err)
	e.result(denied)
	metrics := ""
	require.Eventually(t, func() bool {
		metrics = scrape(t, address)
		return strings.Contains(metrics, `everturn_requests_open{everturn_request_kind="approval"} 1`)
	}, within, 200*time.Millisecond)
	for _, line := range []string{
		`everturn_turns_total{everturn_finish_reason="answered",everturn_turn_state="completed"} 3`,
		`everturn_tool_calls_not_run_total{everturn_outcome="denied"} 1`,
		`everturn_turns_total{everturn_finish_reason="failed",everturn_turn_state="failed"} 1`,
		`everturn_tool_call_duration_seconds_count{everturn_outcome="ok",gen_ai_tool_name="mcp/ledger/append"} 1`,
	} {
		assert.Contains(t, metrics, line)
	}
	for _, name := range metricsOfDeploy(t) {
		assert.Regexp(t, `(?m)^`+regexp.QuoteMeta(name)+`[{ ]`, metrics, "%s is in deploy, but no worker has it", name)
	}
	assert.NotContains(t, metrics, "canary", "a session or a content is in a metric")
	assert.NotContains(t, metrics, waiting.GetRunID())
	p.running()
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	res, err := http.Get("http://" + address + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(b)
}

// metricsOfDeploy returns the names of the metrics in dashboards and rules.
func metricsOfDeploy(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("go", "run", "-C", "dashboards", ".", "../../deploy")
	var output bytes.Buffer
	cmd.Stderr = &output
	out, err := cmd.Output()
	require.NoError(t, err, "%s", output.String())
	names := strings.Fields(string(out))
	require.NotEmpty(t, names)
	return names
}
