// Package mcp is the host of MCP servers: it runs the tools of servers that a turn may call, and is the only package
// that knows the Model Context Protocol. A Host connects to each configured server: a child process over stdio (package
// childproc starts it), or an HTTP server over streamable HTTP or SSE. Package pool holds the connections.
//
// # Outcomes of a call
//
// Package tool decides the outcome of each ending. The host never sends a call twice, unless the server has refused
// it unread and may accept it with a new access token. It does not call a tool that no longer matches the turn config;
// the error's code is then tool_drift.
//
// Three kinds of calls outlast the usual wait. A call that reports progress gets its timeout renewed, up to its total
// timeout. A call whose tool may detach continues after its timeout: the caller gets outcome unknown at once, and the
// late result, if there is one, through ToolRequest.Late. A call whose server sends elicitations (SEP-2322) returns
// without an outcome, with the elicitations and a continuation; given the responses and the continuation, any process
// of the server can continue it. A server of an older protocol holds the call open instead, and may send elicitations
// only if Server.ElicitationTimeout is set: its call waits for the responses (ToolRequest.Elicit). A server that
// requests sampling gets an error.
//
// # Results
//
// A result is text, cut for the model, with the full text beside it; images and audio separately, with the media type
// detected from their bytes; and structured content as JSON, unless the text says the same. It contains no configured
// secret and no access token of its server (see redactor).
//
// # Bounds and recovery
//
// Everything that a server sends is bounded: lines, pages, tools, descriptions, schemas, results, stderr. Every wait
// has a deadline. A session that died is never used again, and a server that keeps working after its deadline has its
// process group killed. Close leaves no process and no goroutine behind; what a killed host leaves behind, the next one
// kills.
//
// Connections are caches. The host opens one when a call or a watcher needs it and closes it when it has been idle for
// Server.IdleTimeout; the server's catalogue stays published. After a failed connect the host backs off before the next
// one, for a pause that doubles from one second to a minute; it also backs off after three calls in a row without an
// answer. After the pause, one attempt decides for all callers. Health describes the state of each server.
//
// Each tenant has its own connections, and with them its own processes, backoff, server state and elicitations. There
// is one catalogue for all tenants, listed by the default tenant's connection.
//
// A stateful server has one connection per turn. A turn that continues gets the connection that it has used before, or
// an error that the server's state is lost.
//
// # Addresses of requests
//
// Requests go only to the configured host, whatever redirects and servers say, over https, or over plain http on
// loopback and in networks that the operator named. The address is checked when it is dialled (package netguard).
//
// # Trust in servers
//
// Nothing that a server says about itself grants permission. Its annotations count only if the operator trusts the
// server, with one exception: a tool that declares itself destructive is believed.
package mcp
