package telemetry

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// Ledger is the part of the journal from which traces are written; journal.DB documents the methods.
type Ledger interface {
	TurnConfig(ctx context.Context, turnID string) (journal.TurnConfig, error)
	Tenant(tenant string) *journal.DB
}

// maxEnded bounds the queue of turns whose traces are not written yet. If the collector is too slow and the queue is
// full, the traces of further turns are dropped.
const maxEnded = 1000

// Start begins to write the traces of turns that end, from the ledger, until Close.
func (t *Telemetry) Start(ledger Ledger) {
	if t.traces == nil {
		return
	}
	var ctx context.Context
	ctx, t.stop = context.WithCancel(context.Background())
	t.ledger, t.ended, t.quit, t.written = ledger, make(chan string, maxEnded), make(chan struct{}), make(chan struct{})
	go t.writeTraces(ctx)
}

// writeTraces writes the traces of queued turns. After quit is closed, it writes the rest of the queue and ends.
func (t *Telemetry) writeTraces(ctx context.Context) {
	defer close(t.written)
	for {
		// The queue comes first, because the second select chooses at random if quit is closed, too.
		select {
		case turnID := <-t.ended:
			t.writeTrace(ctx, turnID)
			continue
		default:
		}
		select {
		case turnID := <-t.ended:
			t.writeTrace(ctx, turnID)
		case <-t.quit:
			return
		}
	}
}

// queueTrace queues the trace of a turn that has ended. It drops the trace if the queue is full.
func (t *Telemetry) queueTrace(turnID string) {
	if t.traces == nil {
		return
	}
	select {
	case t.ended <- turnID:
	default:
		t.options.Log.Warn("the trace of a turn is dropped: the collector does not keep up", "turn", turnID)
	}
}

// turnTrace is the data for a turn's trace.
type turnTrace struct {
	turn       journal.TurnRecord
	config     turn.Config
	inferences []journal.Inference
	changes    []turn.ModelEvent // for each inference, the last change of the model until then; nil without fallbacks
	calls      []journal.CallRecord
	requests   []turn.Request
	question   []turn.Message // the user's message, if contents are exported
}

// writeTrace reads a turn and writes its trace, if the sampler selects it.
func (t *Telemetry) writeTrace(ctx context.Context, turnID string) {
	if !t.rootOf(turnID).IsSampled() {
		return
	}
	all, err := t.readTurn(ctx, turnID)
	if err != nil {
		t.options.Log.Warn("reading a turn for its trace", "turn", turnID, "error", err)
		return
	}
	t.writeSpans(all)
}

// readTurn reads the data for a turn's trace from the ledger.
func (t *Telemetry) readTurn(ctx context.Context, turnID string) (all turnTrace, err error) {
	cfg, err := t.ledger.TurnConfig(ctx, turnID)
	if err != nil {
		return all, err
	}
	if err := json.Unmarshal(cfg.Config, &all.config); err != nil {
		return all, err
	}
	own := t.ledger.Tenant(cfg.Tenant)
	if all.turn, err = own.Turn(ctx, turnID); err != nil {
		return all, err
	}
	if all.inferences, err = own.Inferences(ctx, turnID); err != nil {
		return all, err
	}
	if len(all.config.Models) > 1 {
		for _, i := range all.inferences {
			change, err := own.ModelChange(ctx, i.Key)
			if err != nil {
				return all, err
			}
			all.changes = append(all.changes, change)
		}
	}
	if all.calls, err = own.Calls(ctx, turnID); err != nil {
		return all, err
	}
	if all.requests, err = own.Requests(ctx, turnID); err != nil || !t.contents {
		return all, err
	}
	seq := all.turn.MessageSeq
	all.question, err = own.Window(ctx, turnID, seq, seq, journal.MaxMessageBytes)
	return all, err
}

// writeSpans writes the turn's root span and the spans of its inferences and calls.
func (t *Telemetry) writeSpans(all turnTrace) {
	rec := all.turn
	ctx, root := t.startSpan(context.Background(), rec.ID, turnSpan(rec.ID), opTurn+" "+rec.Agent, rec.StartedAt,
		trace.WithLinks(callerOf(all.config)...))
	root.SetAttributes(turnAttributes(all)...)
	if t.contents {
		root.SetAttributes(semconv.GenAIInputMessagesKey.String(t.messages(all.config, "user", all.question)))
	}
	for _, w := range all.requests {
		root.AddEvent(eventAsked, trace.WithTimestamp(w.AskedAt), trace.WithAttributes(requestAttributes(w)...))
		if w.Decision != nil {
			root.AddEvent(eventDecided, trace.WithTimestamp(w.Decision.At), trace.WithAttributes(append(
				requestAttributes(w), keyDecision.String(string(w.Decision.Status)))...))
		}
	}
	for n, i := range all.inferences {
		t.writeInference(ctx, all, i, all.providerOf(n))
	}
	for _, c := range all.calls {
		t.writeCall(ctx, all, c)
	}
	if rec.State == turn.StateFailed || rec.State == turn.StateClosed {
		markFailed(root, string(rec.Code), string(rec.Reason))
	}
	root.End(trace.WithTimestamp(rec.EndedAt))
}

// markFailed marks a span as failed. The error type is the first of errorTypes that is not empty. The span gets no
// message, which might quote a provider or a tool.
func markFailed(span trace.Span, errorTypes ...string) {
	span.SetStatus(codes.Error, "")
	for _, e := range errorTypes {
		if e != "" {
			span.SetAttributes(semconv.ErrorTypeKey.String(e))
			return
		}
	}
}

// startSpan starts a span with this ID in the turn's trace, at the time at.
func (t *Telemetry) startSpan(ctx context.Context, turnID string, span trace.SpanID, name string, at time.Time,
	opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	return t.tracer.Start(withIDs(ctx, turnID, span), strings.TrimSpace(name), append(opts, trace.WithTimestamp(at))...)
}

// callerOf returns a link to the span in which a client sent the turn's message, or nil if there was none. That span
// is linked and not the parent, because the turn may end days later.
func callerOf(cfg turn.Config) []trace.Link {
	ctx := propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": cfg.TraceParent})
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		return []trace.Link{{SpanContext: sc}}
	}
	return nil
}

// providerOf returns the provider of the turn's inference n, counted from 0.
func (all turnTrace) providerOf(n int) string {
	if n < len(all.changes) && all.changes[n].Provider != "" {
		return all.changes[n].Provider
	}
	return all.config.Provider
}

// turnAttributes returns the attributes of a turn's root span. Its model is that of the last inference.
func turnAttributes(all turnTrace) []attribute.KeyValue {
	rec := all.turn
	provider, model := all.config.Provider, all.config.Model
	if last := len(all.inferences) - 1; last >= 0 {
		provider, model = all.providerOf(last), all.inferences[last].Model
	}
	return append(usageAttributes(rec.Usage),
		semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(rec.Agent),
		semconv.GenAIProviderNameKey.String(provider), semconv.GenAIRequestModel(model),
		semconv.GenAIConversationID(rec.Session), keyTurn.String(rec.ID), keyState.String(string(rec.State)),
		keyFinishReason.String(string(rec.Reason)), keySteps.Int(rec.Steps), keyCalls.Int(rec.Calls),
	)
}

// requestAttributes returns the attributes of the span events about a request.
func requestAttributes(w turn.Request) []attribute.KeyValue {
	return []attribute.KeyValue{keyRequest.String(w.ID), keyRequestKind.String(string(w.Kind))}
}

// writeInference writes the span of the last attempt of a step's inference. The span of an inference that was not
// settled is marked as failed and ends with the turn.
func (t *Telemetry) writeInference(ctx context.Context, all turnTrace, i journal.Inference, provider string) {
	id := all.turn.ID
	_, span := t.startSpan(ctx, id, inferenceSpan(id, i.Key.Step, i.Attempt), opInference+" "+i.Model, i.StartedAt,
		trace.WithSpanKind(trace.SpanKindClient))
	span.SetAttributes(semconv.GenAIOperationNameChat, semconv.GenAIProviderNameKey.String(provider),
		semconv.GenAIRequestModel(i.Model), semconv.GenAIConversationID(all.turn.Session), keyStep.Int(i.Key.Step),
		keyAttempt.Int(i.Attempt), keyFailures.Int(i.Failures))
	if !i.Settled {
		markFailed(span, string(all.turn.Code), string(all.turn.Reason))
		span.End(trace.WithTimestamp(all.turn.EndedAt))
		return
	}
	span.SetAttributes(usageAttributes(i.Completion.Usage)...)
	span.SetAttributes(semconv.GenAIResponseFinishReasons(i.Completion.FinishReason))
	if i.Completion.Model != "" {
		span.SetAttributes(semconv.GenAIResponseModel(i.Completion.Model))
	}
	if t.contents {
		span.SetAttributes(semconv.GenAIOutputMessagesKey.String(t.messages(all.config, "assistant", []turn.Message{i.Message})))
	}
	span.End(trace.WithTimestamp(i.SettledAt))
}

// writeCall writes the span of a call. The span of a call without an attempt has no duration.
func (t *Telemetry) writeCall(ctx context.Context, all turnTrace, c journal.CallRecord) {
	rec := all.turn
	began := c.ClaimedAt
	if began.IsZero() {
		began = c.SettledAt
	}
	_, span := t.startSpan(ctx, rec.ID, callSpan(rec.ID, c.Call.ID), opCall+" "+c.Call.Tool, began)
	span.SetAttributes(semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(c.Call.Tool),
		semconv.GenAIToolCallID(c.Call.ID), semconv.GenAIToolType("function"), semconv.GenAIConversationID(rec.Session),
		keyStep.Int(c.Step), keyAttempt.Int(c.Attempt), keyOutcome.String(string(c.Outcome)))
	if server, ok := serverOf(c.Call.Tool); ok {
		span.SetAttributes(keyMCPMethod.String("tools/call"), keyServer.String(server))
	}
	if t.contents {
		span.SetAttributes(semconv.GenAIToolCallArgumentsKey.String(t.arguments(all.config, c.Call)),
			semconv.GenAIToolCallResultKey.String(t.content(c.Text)))
	}
	if e := errorType(c); e != "" {
		markFailed(span, e)
	}
	span.End(trace.WithTimestamp(c.SettledAt))
}

// errorType returns the value of error.type for a call, or "" if the call succeeded.
func errorType(c journal.CallRecord) string {
	switch {
	case c.Outcome == turn.OutcomeOK:
		return ""
	case c.Code != "":
		return string(c.Code)
	case c.Outcome == turn.OutcomeError:
		return "tool_error"
	}
	return string(c.Outcome)
}

// serverOf returns the ID of the MCP server to which the tool belongs; ok is false if it is not a tool of a server.
func serverOf(tool string) (server string, ok bool) {
	rest, ok := strings.CutPrefix(tool, "mcp/")
	server, _, _ = strings.Cut(rest, "/")
	return server, ok
}

// rootOf returns the span context of a turn's root span, with the sampler's decision. It starts a span to get that
// decision. The span is never ended, so it is not exported.
func (t *Telemetry) rootOf(turnID string) trace.SpanContext {
	_, root := t.tracer.Start(withIDs(context.Background(), turnID, turnSpan(turnID)), opTurn)
	return root.SpanContext()
}

// CallContext returns ctx with the span of a call as the current span, so that the spans of the tool become part of
// the turn's trace. MCP servers get the span as traceparent.
func (t *Telemetry) CallContext(ctx context.Context, turnID, callID string) context.Context {
	if t.traces == nil {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, t.rootOf(turnID).WithSpanID(callSpan(turnID, callID)))
}
