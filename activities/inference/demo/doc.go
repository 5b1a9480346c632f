// Package demo is the model provider for machines without an API key: a small set of rules behind the real wire format.
//
// It is not a language model, and says so in every answer. It serves OpenAI's Chat Completions over loopback HTTP,
// streamed and not, so that everything between a worker and a provider runs as it would with a real one. It uses the
// file tools that it is offered (names that end in list_files, read_file and search_text), natively or by the JSON
// action protocol, and quotes their results. It invents nothing: every quote comes from a result in the request.
//
// It keeps no state. The next step depends only on the messages of the request (see decide):
//
//	call NAME {ARGUMENTS}    → that call, of any offered tool, then its result
//	nothing known            → list_files, or search_text if the question asks to find a quoted word
//	a listing                → read_file for the files that the question names, or README, go.mod and the like
//	all wanted files are read → answer with quotes
package demo
