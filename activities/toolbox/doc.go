// Package toolbox is the tool host: it runs the tools that a turn may call and is the only place that knows the Model
// Context Protocol. A Host holds one connection to each configured server (a child process over stdio, or streamable
// HTTP) and one to the Local tools of this program, which are typed Go functions on an MCP server in memory.
//
// # What a call may end in
//
// The difference that matters is whether a request left the host. Until its first byte does, a failure is a
// *turn.Error with code tool_not_sent and the call may be dispatched again. From then on every ending is a result:
// ok and error where the server answered, unknown where it did not (it died, it fell silent, it sent garbage, the
// call was cancelled).
// The host never sends a call twice. A tool that is no longer what the turn pinned is not called: tool_drift.
//
// # What keeps the host alive
//
// Everything that a server says is bounded: lines, pages, tools, descriptions, schemas, results, stderr. Every wait
// has a deadline. A session that died is never used again; the next call starts a new one, after a pause that doubles
// from one second to a minute while connecting fails. A server that keeps working after its deadline loses its
// process group. Close leaves no process and no goroutine.
//
// # What a server's word is worth
//
// Nothing that a server says about itself grants permission. Its annotations count where the operator trusts the
// server, except that a tool which calls itself destructive is believed.
package toolbox
