package telemetry

import (
	"context"
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/everturn/everturn/workflows/turn"
)

// traceID returns the ID of a turn's trace.
func traceID(turnID string) trace.TraceID {
	id, _ := trace.TraceIDFromHex(turn.TraceID(turnID)) // always 32 digits
	return id
}

// spanID returns the ID of a span in a turn's trace. name identifies the span within the trace.
func spanID(turnID, name string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(turnID + "\x00" + name))
	copy(id[:], sum[:])
	return id
}

// turnSpan returns the ID of a turn's root span.
func turnSpan(turnID string) trace.SpanID { return spanID(turnID, opTurn) }

// inferenceSpan returns the ID of the span of an attempt of an inference.
func inferenceSpan(turnID string, step, attempt int) trace.SpanID {
	return spanID(turnID, fmt.Sprintf("%s %d %d", opInference, step, attempt))
}

// callSpan returns the ID of the span of a call. All attempts of the call share it.
func callSpan(turnID, callID string) trace.SpanID { return spanID(turnID, opCall+" "+callID) }

// idKey is the context key of the spanIDs for the next span.
type idKey struct{}

// spanIDs are the IDs of a span that is about to start.
type spanIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// derivedIDs is an ID generator that takes the IDs of a new span from its context. They derive from the turn, so a
// trace is the same whichever worker writes it.
type derivedIDs struct{}

// NewIDs implements sdktrace.IDGenerator.
func (derivedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids, _ := ctx.Value(idKey{}).(spanIDs)
	return ids.trace, ids.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (d derivedIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := d.NewIDs(ctx)
	return span
}

// withIDs returns ctx for a span that starts with this ID in the turn's trace.
func withIDs(ctx context.Context, turnID string, span trace.SpanID) context.Context {
	return context.WithValue(ctx, idKey{}, spanIDs{traceID(turnID), span})
}
