// Package servers holds tests against third-party MCP servers: two of the protocol's reference servers. The tests call
// each of their tools through whole turns, on a real Temporal server with a real worker and a scripted model, over
// stdio, HTTP and SSE. They check the results of the calls.
//
// If a server gets a tool that no test calls, its test fails, so that an update of a server shows what is new.
package servers
