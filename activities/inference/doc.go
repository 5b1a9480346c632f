// Package inference calls language models over HTTP.
//
// New returns an Endpoint; its Infer sends one prompt, streams the response into a sink and returns the completion. It
// implements activities.Model without importing it. A Wire is a wire API, which renders prompts and reads events; the
// packages chat, responses and messages implement one each. Package inference has everything that the wire APIs share:
// requests, deadlines, bounds, refusals, and the conversation in the form that all of them need.
//
// Requests have go-openai's types where it has them. Its client is not used, for three reasons that were measured on
// v1.43.0: its stream reader reports a stream that was cut off as a plain io.EOF, which looks like success; it gives up
// after 300 keep-alive comments; and it drops unknown fields, which some providers need returned.
//
// Invariants:
//   - A completion is complete only with a finish reason. Without one, or with a tool call that the provider has not
//     completed, the error is llm_truncated.
//   - Infer does not retry, with one exception: if an endpoint refuses a request before it answers, because it does not
//     support media or an optional parameter, Infer sends the request again without them. A response that has begun is
//     billed, so its request is never sent again.
//   - Four deadlines: connect, first token, idle stream, total. Each has its own message.
//   - Equal prompts are equal bytes, and a longer transcript only appends to the messages.
//   - A response is bounded in bytes, pieces, tool calls, values and nesting before it is decoded, and collected in
//     linear time (see bounds.go). A response over a bound is llm_rejected.
//   - The items that a provider needs back with a message (turn.ProviderItems) are sent back unchanged, and only to the
//     same model of the same provider.
//   - No error contains the API key.
package inference
