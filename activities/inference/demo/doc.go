// Package demo is a model provider for machines without an API key: a few rules behind the real wire format.
//
// It is not a language model, and says so in every answer. It serves OpenAI's Chat Completions over loopback HTTP,
// streamed, so that everything between a worker and a provider runs as it would with a real provider. Its answers quote
// the results of the tools that it calls.
//
// It keeps no state. The next step depends only on the request: the question, which is the last message of the user,
// the offered tools, and the results since the question. The first rule that applies decides:
//
//	the question is the answer of an
//	agent in the background              → that answer alone
//	a tool for plans is offered, and the
//	question is "write A: TEXT; write
//	B: TEXT"                             → a plan with a step for each file, and then its steps
//	the question is "call NAME {…}"      → that call, and then its result alone
//	the question names an offered tool   → that tool, once, with the JSON object in the question as its arguments
//	the question is a greeting           → an answer
//	it says "ask me"                     → ask_user
//	it is "write NAME: TEXT"             → write_file
//	it asks to find a quoted word        → search_text
//	no tool was called yet               → list_files
//	the files were listed                → read_file for those that the question names, or README, go.mod and the like
//	otherwise                            → an answer that quotes the results
package demo
