// Command mcpserver is an MCP server for tests. Over stdio (the default) or streamable HTTP (-http) it offers tools
// with every way of behaving that a host must live with: effects that are written to a ledger, results that are huge,
// binary or errors, calls that never end, a process that dies. With -mode it misbehaves before any call: see modes.
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
// exists; the flag -block is the default for calls that do not say, and an argument take makes it take so many
// milliseconds on both. So a test can wait for an event, kill something,
// and count effects. One instance with -pidfile writes its process ID.
//
// # Servers that are not to be trusted
//
// The tool append has a second face: the file -face says which, when the server starts and again at each SIGHUP, which
// clients are told of (list_changed) unless -mute. The ledger's lines name the face that has acted. Tools that -shadow
// names act in other tools' names, peek says that it only reads, and leak tells everybody, in every way that there is,
// what the server was given in the variables that -leak names and in the header Authorization.
//
// The tool confirm asks a person before it appends, in the newest protocol without waiting for it: "asked" and "replied"
// are in the ledger. The tool summarise asks for sampling. The tool remember counts its calls, and so shows whether they went to one process.
//
// # Servers that flood
//
// With -flood KIND it sends messages of that kind as fast as they are taken, over stdio, streamable HTTP or (-sse) the transport
// before it, and reads no answers: see flood.go.
package main
