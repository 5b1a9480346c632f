// Package demo is the provider for machines without a key: a small set of rules behind the real wire format.
//
// It is not a language model, and says so in every answer. It serves OpenAI's Chat Completions over loopback HTTP,
// streamed and not, so that everything between a worker and a provider runs as it would with a real one. It uses the
// file tools that it is offered (names that end in list_files, read_file and search_text), natively or by the JSON
// action protocol, and quotes what they returned. It invents nothing: every quote comes from a result in the request.
//
// It keeps no state. What to do next follows from the messages of the request alone (see decide):
//
//	nothing known            → list_files, or search_text where a quoted word is to be found
//	a listing                → read_file for what the question names, or README, go.mod and the like
//	everything wanted was read → answer with quotes
package demo
