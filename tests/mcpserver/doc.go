// Command mcpserver is an MCP server for tests. Over stdio (the default) or streamable HTTP (-http) it offers tools
// that show every behavior that a host must handle: effects that are written to a ledger, results that are huge, binary
// or errors, calls that never end, a process that dies. With -mode it misbehaves before any call: see modes.
//
// # The ledger
//
// With -ledger FILE the tool append writes JSON lines to FILE, each synced to disk before the next step:
//
//	{"event":"begun","text":"…"}     the call has arrived; nothing has been done
//	{"event":"effect","text":"…"}    the effect; count these lines
//	{"event":"mode","text":"…"}      the server starts and finds in its -mode-file how to misbehave
//	{"event":"done","text":"…"}      the answer is about to be sent
//
// With -times each line has the time of the event and the process, too, as "at" and "pid".
//
// An argument block of "before" or "after" makes the call wait on that side of the effect until the file -release
// exists. The flag -block is the default for calls without the argument, and an argument take adds so many milliseconds
// on both sides. So a test can wait for an event, kill something, and count effects. An instance with -pidfile writes
// its process ID.
//
// # Untrusted servers
//
// The tool append has a second face. The file -face names it; the server reads it when it starts and again at each
// SIGHUP, and announces the change to its clients (list_changed) unless -mute is set. The ledger's lines name the face
// that has acted. peek claims that it only reads, and leak sends
// the variables that -leak names and the header Authorization over every channel that the protocol has.
//
// The tool confirm asks for confirmation before it appends, in the newest protocol without waiting for the response:
// "asked" and "replied" are in the ledger. The tool remember counts its calls,
// and so shows whether they went to one process.
//
// # Servers that flood
//
// With -flood KIND it sends messages of that kind as fast as the client takes them, over stdio, streamable HTTP or
// (-sse) the transport before it, and reads no answers: see flood.go.
package main
