package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"
)

// addTraceContext adds the trace context of ctx to a request, under the unprefixed keys traceparent and tracestate that
// SEP-414 of the Model Context Protocol reserves for it.
func addTraceContext(ctx context.Context, meta sdk.Meta) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for key, value := range carrier {
		meta[key] = value
	}
}
