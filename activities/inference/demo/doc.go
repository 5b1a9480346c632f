// Package demo is the model provider for machines without an API key: a few rules behind the real wire format.
//
// It is not a language model, and says so in every answer. It serves OpenAI's Chat Completions over loopback HTTP,
// streamed, so that everything between a worker and a provider runs as it would with a real one. It quotes the results
// of the tools that it calls, and invents nothing.
//
// It keeps no state. The next step depends only on the messages of the request:
//
//	the question is "call NAME {…}"     → that call of an offered tool, and then its result alone
//	it works by a plan, and the
//	question is "write A: TEXT; write
//	B: TEXT"                            → a plan with a step for each file, and then its steps
//	the question names an offered tool  → that tool, once, with the JSON object in the question as its arguments
//	it says "write NAME: TEXT"          → write_file
//	it says "ask me"                    → ask_user
//	it asks to find a quoted word       → search_text
//	nothing is known                    → list_files
//	the files are known                 → read_file for those that the question names, or README, go.mod and the like
//	otherwise                           → an answer with quotes
package demo
