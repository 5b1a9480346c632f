// Package cookbook is the usual agent loop on Temporal, the benchmark's baseline: a workflow that holds the list of
// messages and hands all of it to each inference activity, and an activity for each tool call. It is what the
// examples of agent frameworks show.
//
// It is a fair baseline: one MCP session and HTTP connections that stay open, tool descriptions held by the worker
// instead of sent with each inference, eager activities, and the worker options of Everturn's own worker. The rest are
// the SDK's defaults; arms that are called tuned also have the setting that Everturn's worker uses for itself: no
// compression on loopback. It has no journal, no claims, no streaming to readers, no limits and no redaction.
package cookbook
