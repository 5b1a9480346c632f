package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
	"go.opentelemetry.io/otel/semconv/v1.41.0/mcpconv"

	"github.com/everturn/everturn/workflows/turn"
)

// The names of spans, attributes and metrics. Those of inferences, tools and MCP are of OpenTelemetry's semantic
// conventions 1.41.0, the last version that the Go module go.opentelemetry.io/otel publishes with packages for GenAI
// and MCP; later versions rename the metrics. Names that begin with everturn are our own.

// schemaURL names the version of the conventions in the exported data.
const schemaURL = semconv.SchemaURL

// The operations. The name of each span begins with one.
const (
	opTurn      = "invoke_agent"
	opInference = "chat"
	opCall      = "execute_tool"
)

// Attributes that the conventions do not define, or for which they have no Go constant.
const (
	keyTurn         = attribute.Key("everturn.turn.id")
	keyState        = attribute.Key("everturn.turn.state")
	keyFinishReason = attribute.Key("everturn.finish_reason")
	keyStep         = attribute.Key("everturn.step")
	keySteps        = attribute.Key("everturn.steps")
	keyCalls        = attribute.Key("everturn.tool_calls")
	keyAttempt      = attribute.Key("everturn.attempt")
	keyFailures     = attribute.Key("everturn.failures")
	keyOutcome      = attribute.Key("everturn.outcome")
	keyRequest      = attribute.Key("everturn.request.id")
	keyRequestKind  = attribute.Key("everturn.request.kind")
	keyDecision     = attribute.Key("everturn.decision")
	keyTaskType     = attribute.Key("everturn.task_type")
	keyDelivery     = attribute.Key("everturn.delivery")
	keyCost         = attribute.Key("everturn.cost_usd")
	keyServer       = attribute.Key("everturn.mcp.server")
	keyMCPMethod    = attribute.Key("mcp.method.name") // semantic conventions 1.41.0, which have no Go constant for it
)

// The events of a turn's span about a request. Between the two, the turn waits for the decision.
const (
	eventAsked   = "everturn.request.asked"
	eventDecided = "everturn.request.decided"
)

// usageAttributes returns the attributes for the tokens and the cost of an inference or a turn.
func usageAttributes(u turn.Usage) []attribute.KeyValue {
	out := []attribute.KeyValue{
		semconv.GenAIUsageInputTokens(int(u.InputTokens)), semconv.GenAIUsageOutputTokens(int(u.OutputTokens)),
	}
	if u.CachedTokens > 0 {
		out = append(out, semconv.GenAIUsageCacheReadInputTokens(int(u.CachedTokens)))
	}
	if u.Cost > 0 {
		out = append(out, keyCost.Float64(u.Cost.Dollars()))
	}
	return out
}

// Boundaries of histograms. Those of gen_ai.* and mcp.* are the advice of the semantic conventions.
var (
	tokenBounds = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	modelBounds = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	callBounds  = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}
	turnBounds  = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 14400, 86400}
	// sdkBounds are the boundaries for the Temporal SDK's timers, which measure polls as well as activities.
	sdkBounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
)

// instruments are the metrics of turns. No label is a session, a turn or a tenant, because labels must have few
// values.
type instruments struct {
	turns        metric.Int64Counter
	turnDuration metric.Float64Histogram
	steps        metric.Int64Counter
	callDuration metric.Float64Histogram
	mcpDuration  mcpconv.ClientOperationDuration
	denied       metric.Int64Counter
	tokens       genaiconv.ClientTokenUsage
	used         metric.Int64Counter
	cost         metric.Float64Counter
	duration     genaiconv.ClientOperationDuration
	firstChunk   genaiconv.ClientOperationTimeToFirstChunk
	events       metric.Int64Counter
	open         metric.Int64Gauge
	backlog      metric.Int64Gauge
	backlogAge   metric.Float64Gauge
}

// newInstruments creates the metrics.
func newInstruments(m metric.Meter) (i instruments, err error) {
	var errs [15]error
	i.turns, errs[0] = m.Int64Counter("everturn.turns", metric.WithDescription("Turns that ended."))
	i.turnDuration, errs[1] = m.Float64Histogram("everturn.turn.duration", metric.WithUnit("s"),
		metric.WithDescription("Time between a turn's beginning and its end, waiting included."),
		metric.WithExplicitBucketBoundaries(turnBounds...))
	i.steps, errs[2] = m.Int64Counter("everturn.steps", metric.WithDescription("Inferences that were settled."))
	i.callDuration, errs[3] = m.Float64Histogram("everturn.tool.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Time between the claim of a tool call and its settlement, by outcome."),
		metric.WithExplicitBucketBoundaries(callBounds...))
	i.mcpDuration, errs[4] = mcpconv.NewClientOperationDuration(m, metric.WithExplicitBucketBoundaries(callBounds...))
	i.denied, errs[5] = m.Int64Counter("everturn.tool.calls.not_run",
		metric.WithDescription("Tool calls that were settled without an attempt, by outcome."))
	i.tokens, errs[6] = genaiconv.NewClientTokenUsage(m, metric.WithExplicitBucketBoundaries(tokenBounds...))
	i.duration, errs[7] = genaiconv.NewClientOperationDuration(m, metric.WithExplicitBucketBoundaries(modelBounds...))
	i.firstChunk, errs[8] = genaiconv.NewClientOperationTimeToFirstChunk(m,
		metric.WithExplicitBucketBoundaries(modelBounds...))
	i.events, errs[9] = m.Int64Counter("everturn.sink.events",
		metric.WithDescription("Events of turns for the sinks: delivered or dropped."))
	i.open, errs[10] = m.Int64Gauge("everturn.requests.open",
		metric.WithDescription("Requests that wait for a decision, in all sessions of the journal."))
	i.backlog, errs[11] = m.Int64Gauge("everturn.task_queue.backlog",
		metric.WithDescription("Tasks that wait in the worker's task queue, about."))
	i.backlogAge, errs[12] = m.Float64Gauge("everturn.task_queue.backlog.age", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest task that waits in the worker's task queue, about."))
	i.used, errs[13] = m.Int64Counter("everturn.usage.tokens",
		metric.WithDescription("Tokens of all attempts of inferences. cached is a part of input, and reasoning of output."))
	i.cost, errs[14] = m.Float64Counter("everturn.usage.cost", metric.WithUnit("USD"),
		metric.WithDescription("Cost of all attempts of inferences whose price is known."))
	return i, errors.Join(errs[:]...)
}
