// Package toolbox is the tool host: it runs the tools that a turn may call and is the only place that knows the Model
// Context Protocol. A Host holds one connection to each configured server (a child process over stdio, or streamable
// HTTP) and one to the Local tools of this program, which are typed Go functions on an MCP server in memory.
//
// # What a call may end in
//
// The difference that matters is whether a request left the host. Until its first byte does, a failure is a
// *turn.Error with code tool_not_sent and the call may be dispatched again. From then on every ending is a result:
// ok and error where the server answered, unknown where it did not (it died, it fell silent, it sent garbage, the
// call was cancelled). What each ending comes to is decided in one place, ending.class.
// The host never sends a call twice. A tool that is no longer what the turn pinned is not called: tool_drift.
//
// Three kinds of calls do not end where they are waited for. One that reports progress is given its timeout anew, up to
// its total. One whose tool may detach goes on when its time is up: the caller is told unknown at once, and the end, if
// it comes, by ToolRequest.Late. One whose server wants to know something from a person (SEP-2322) comes back without an
// outcome, with the questions and a continuation: with the replies and that, any process of the server goes on. Servers
// of older protocols, which would hold the call meanwhile, are not told that they may ask, unless Server.HoldQuestions
// says for how long. A server that asks the model (sampling) gets an error.
//
// # What a result is
//
// Text, cut for the model, with the whole beside it; images and audio by themselves, with the type that their bytes
// show; structured content as JSON, unless the text says the same. No configured secret is in any of it: see redactor.
//
// # What keeps the host alive
//
// Everything that a server says is bounded: lines, pages, tools, descriptions, schemas, results, stderr. Every wait
// has a deadline. A session that died is never used again, and a server that keeps working after its deadline loses its
// process group. Close leaves no process and no goroutine; what a killed host has left, the next one ends.
//
// Connections are caches. They are made when a call, or somebody who watches, needs one, and end when nobody uses them
// (Server.IdleTimeout); what the server offered stays published. A connect that fails is not repeated before a pause
// that doubles from one second to a minute; so is no call after three in a row to which no answer came. When the pause
// is over one attempt finds out for all. Health says how each server does.
//
// Each tenant has connections of its own, with all that goes by them: processes, pauses after failures, what servers
// remember and ask. The catalogue is one for all, and the default tenant's connection lists it.
//
// A stateful server has a connection for each turn. A turn that goes on finds the one that it has used before, or is told
// that the server's state is lost.
//
// # Where requests may go
//
// To the configured host and no other, whatever redirects and servers say; over https, or plain http on loopback and in
// networks that the operator named. The address is checked at the moment of dialling: see guard.
//
// # What a server's word is worth
//
// Nothing that a server says about itself grants permission. Its annotations count where the operator trusts the
// server, except that a tool which calls itself destructive is believed.
package toolbox
