// Package inference asks language models over HTTP: any endpoint that speaks OpenAI's Chat Completions.
//
// New makes a Chat of an endpoint; its Infer sends one prompt, streams the answer into a sink and returns it whole. It
// implements activities.Model without knowing it.
//
// Requests are built and sent by go-openai. Its reader of streams is not used, for three reasons that were measured
// on v1.43.0: it reports a stream that was cut as a plain io.EOF, which looks like success; it gives up after 300
// keep-alive comments; and it loses fields that it does not know, which some providers want back. So this package
// taps the response: an exchange stands between the library and the network, sees every header and byte, and bounds them.
//
// What holds:
//   - An answer is complete only with a finish reason. Without one the error is llm_truncated.
//   - Nothing is repeated here, with one exception: a request that was refused (and not paid) because the endpoint does
//     not know one of its optional parameters is sent again without it.
//   - Four deadlines: connect, first token, idle stream, total. Each has its own message.
//   - Equal prompts are equal bytes, and a longer transcript only appends to the messages (see render.go).
//   - An answer is bounded in bytes, pieces, tool calls, values and nesting before it is decoded, and collected in linear
//     time (see bounds.go). One that is over a bound is llm_rejected.
//   - The API key is in no error.
package inference
