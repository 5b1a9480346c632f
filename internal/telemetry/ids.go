package telemetry

import (
	"context"
	"crypto/sha256"
	"fmt"

	"go.opentelemetry.io/otel/trace"
)

// traceID returns the trace of a turn: the first 16 bytes of the SHA-256 of its ID.
func traceID(turnID string) (id trace.TraceID) {
	sum := sha256.Sum256([]byte(turnID))
	copy(id[:], sum[:])
	return id
}

func spanID(turnID, name string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(turnID + "\x00" + name))
	copy(id[:], sum[:])
	return id
}

func turnSpan(turnID string) trace.SpanID { return spanID(turnID, opTurn) }

func inferenceSpan(turnID string, step, attempt int) trace.SpanID {
	return spanID(turnID, fmt.Sprintf("%s %d %d", opInference, step, attempt))
}

// callSpan returns the span of a call. All its attempts have the same one.
func callSpan(turnID, callID string) trace.SpanID { return spanID(turnID, opCall+" "+callID) }

// idKey is the context key of the IDs of the span to start.
type idKey struct{}

type spanIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// derivedIDs gives a new span the IDs that its context carries.
type derivedIDs struct{}

func (derivedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids, _ := ctx.Value(idKey{}).(spanIDs)
	return ids.trace, ids.span
}

func (d derivedIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, span := d.NewIDs(ctx)
	return span
}

func withIDs(ctx context.Context, turnID string, span trace.SpanID) context.Context {
	return context.WithValue(ctx, idKey{}, spanIDs{traceID(turnID), span})
}
