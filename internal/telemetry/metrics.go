package telemetry

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
	"go.opentelemetry.io/otel/semconv/v1.41.0/mcpconv"
	"go.temporal.io/sdk/client"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// scopeOf returns the instrumentation scope with this name.
func scopeOf(name string) instrumentation.Scope { return instrumentation.Scope{Name: name} }

// SDK returns the handler for the Temporal SDK's own metrics, or nil if no metrics are exported.
func (t *Telemetry) SDK() client.MetricsHandler {
	if !t.Metrics() {
		return nil
	}
	return homeQueues{temporalotel.NewMetricsHandler(temporalotel.MetricsHandlerOptions{
		Meter: t.meters.Meter(sdkScope), UseMonotonicCounters: true,
		OnError: func(err error) { t.options.Log.Warn("a metric of the Temporal SDK", "error", err) },
	})}
}

// homeQueues removes the random part from the names of home queues in metrics. Otherwise each start of a worker would
// add a value to the label.
type homeQueues struct{ client.MetricsHandler }

// WithTags implements client.MetricsHandler. It shortens the name of a home queue.
func (h homeQueues) WithTags(tags map[string]string) client.MetricsHandler {
	if queue, _, ok := strings.Cut(tags["task_queue"], "-home-"); ok {
		clean := map[string]string{}
		for k, v := range tags {
			clean[k] = v
		}
		clean["task_queue"] = queue + "-home"
		tags = clean
	}
	return homeQueues{h.MetricsHandler.WithTags(tags)}
}

// TurnEnded counts a turn that has ended, records its duration and queues its trace. If repeated is true, the turn
// was counted before, and only its trace is queued.
func (t *Telemetry) TurnEnded(ctx context.Context, rec journal.TurnRecord, repeated bool) {
	t.queueTrace(rec.ID)
	if t.meters == nil || repeated {
		return
	}
	state := keyState.String(string(rec.State))
	t.measured.turns.Add(ctx, 1, metric.WithAttributes(state, keyFinishReason.String(string(rec.Reason))))
	t.measured.turnDuration.Record(ctx, rec.EndedAt.Sub(rec.StartedAt).Seconds(), metric.WithAttributes(state))
}

// StepSettled counts a settled step.
func (t *Telemetry) StepSettled(ctx context.Context) {
	if t.meters != nil {
		t.measured.steps.Add(ctx, 1)
	}
}

// CallSettled records the duration of a settled call, by its tool and outcome, and that of a call of an MCP server also
// in the metric of the semantic conventions. A call that was never claimed counts as 0 seconds.
func (t *Telemetry) CallSettled(ctx context.Context, c journal.CallRecord) {
	if t.meters == nil {
		return
	}
	seconds := c.SettledAt.Sub(c.ClaimedAt).Seconds()
	if c.ClaimedAt.IsZero() {
		seconds = 0
	}
	t.measured.callDuration.Record(ctx, seconds, metric.WithAttributes(semconv.GenAIToolName(c.Call.Tool),
		keyOutcome.String(string(c.Outcome))))
	if _, ok := serverOf(c.Call.Tool); !ok {
		return
	}
	attrs := []attribute.KeyValue{semconv.GenAIToolName(c.Call.Tool)}
	if e := errorType(c); e != "" {
		attrs = append(attrs, semconv.ErrorTypeKey.String(e))
	}
	t.measured.mcpDuration.Record(ctx, seconds, mcpconv.MethodNameToolsCall, attrs...)
}

// CallsNotRun counts the denied calls among the outcomes. They ended without an attempt.
func (t *Telemetry) CallsNotRun(ctx context.Context, outcomes []turn.CallOutcome) {
	if t.meters == nil {
		return
	}
	for _, o := range outcomes {
		if o.Outcome == turn.OutcomeDenied {
			t.measured.denied.Add(ctx, 1, metric.WithAttributes(keyOutcome.String(string(o.Outcome))))
		}
	}
}

// Inference is one request to the model, for Inferred.
type Inference struct {
	Provider   string // "": the default one
	Model      string
	Began      time.Time
	FirstEvent time.Time // when the first event of the stream arrived; zero if none did
	Completion turn.Completion
	Err        error
}

// Inferred records the duration of a request to the model that has just ended and, if it succeeded, its tokens.
func (t *Telemetry) Inferred(ctx context.Context, i Inference) {
	if t.meters == nil {
		return
	}
	chat := genaiconv.OperationNameChat
	provider := genaiconv.ProviderNameAttr(cmp.Or(i.Provider, t.options.Provider))
	model := semconv.GenAIRequestModel(i.Model)
	if !i.FirstEvent.IsZero() {
		t.measured.firstChunk.Record(ctx, i.FirstEvent.Sub(i.Began).Seconds(), chat, provider, model)
	}
	attrs := []attribute.KeyValue{model}
	if i.Err != nil {
		attrs = append(attrs, semconv.ErrorTypeKey.String(codeOf(i.Err)))
	}
	t.measured.duration.Record(ctx, time.Since(i.Began).Seconds(), chat, provider, attrs...)
	if i.Err != nil {
		return
	}
	u := i.Completion.Usage
	t.measured.tokens.Record(ctx, u.InputTokens, chat, provider, genaiconv.TokenTypeInput, model)
	t.measured.tokens.Record(ctx, u.OutputTokens, chat, provider, genaiconv.TokenTypeOutput, model)
}

// Used counts the tokens and the cost of an attempt of an inference, by model.
func (t *Telemetry) Used(ctx context.Context, model string, u turn.Usage) {
	if t.meters == nil {
		return
	}
	byModel := semconv.GenAIRequestModel(model)
	for kind, n := range map[string]int64{"input": u.InputTokens, "cached": u.CachedTokens, "output": u.OutputTokens,
		"reasoning": u.ReasoningTokens} {
		if n > 0 {
			t.measured.used.Add(ctx, n, metric.WithAttributes(semconv.GenAITokenTypeKey.String(kind), byModel))
		}
	}
	if u.Cost > 0 {
		t.measured.cost.Add(ctx, u.Cost.Dollars(), metric.WithAttributes(byModel))
	}
}

// codeOf returns the turn.Code of an error, or "cancelled" for any other error: the model returns no others.
func codeOf(err error) string {
	var e *turn.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return string(turn.OutcomeCancelled)
}

// Delivered counts an event for a sink. delivered is false if the event was dropped.
func (t *Telemetry) Delivered(ctx context.Context, delivered bool) {
	if !t.Metrics() {
		return
	}
	how := "dropped"
	if delivered {
		how = "delivered"
	}
	t.measured.events.Add(ctx, 1, metric.WithAttributes(keyDelivery.String(how)))
}

// Metrics reports whether metrics are exported.
func (t *Telemetry) Metrics() bool { return t != nil && t.meters != nil }

// OpenRequests records how many requests of each kind wait for a decision. Metrics must be exported.
func (t *Telemetry) OpenRequests(ctx context.Context, open map[turn.RequestKind]int64) {
	for _, kind := range turn.RequestKinds() {
		t.measured.open.Record(ctx, open[kind], metric.WithAttributes(keyRequestKind.String(string(kind))))
	}
}

// Backlogs records the sizes and ages of the backlogs of the worker's task queue. Metrics must be exported.
func (t *Telemetry) Backlogs(ctx context.Context, list []temporalconn.Backlog) {
	for _, b := range list {
		with := metric.WithAttributes(keyTaskType.String(b.TaskType))
		t.measured.backlog.Record(ctx, b.Tasks, with)
		t.measured.backlogAge.Record(ctx, b.Age.Seconds(), with)
	}
}
