// Package inference calls language models over HTTP, at any endpoint that implements OpenAI's Chat Completions.
//
// New returns a Chat for an endpoint; its Infer sends one prompt, streams the response into a sink and returns the
// completion. It implements activities.Model without importing it.
//
// Requests are built and sent by go-openai. Its stream reader is not used, for three reasons that were measured on
// v1.43.0: it reports a stream that was cut off as a plain io.EOF, which looks like success; it gives up after 300
// keep-alive comments; and it drops unknown fields, which some providers need returned. This package therefore
// taps the response: an exchange stands between the library and the network, sees every header and byte, and bounds
// them. The library has no type for audio: the exchange sends a request with audio in place of the library's.
//
// Invariants:
//   - A completion is complete only with a finish reason. Without one the error is llm_truncated.
//   - Infer does not retry, with one exception: if an endpoint refuses a request before it answers, because it does not
//     support media or an optional parameter, Infer sends the request again without them. A response that has begun is
//     billed, so its request is never sent again.
//   - Four deadlines: connect, first token, idle stream, total. Each has its own message.
//   - Equal prompts are equal bytes, and a longer transcript only appends to the messages (see render.go).
//   - A response is bounded in bytes, pieces, tool calls, values and nesting before it is decoded, and collected in
//     linear time (see bounds.go). A response over a bound is llm_rejected.
//   - No error contains the API key.
package inference
