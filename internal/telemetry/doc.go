// Package telemetry exports a worker's traces and metrics with OpenTelemetry.
//
// A turn's trace is written once, when the turn ends, from the journal's ledger: invoke_agent with a chat span for each
// inference and an execute_tool span for each call. All IDs are derived from the turn's ID, so the trace is the same
// whichever workers ran the turn and however often they crashed, and a replay of the workflow writes nothing.
//
// names.go has the names of all spans, attributes and metrics, with their source.
package telemetry
