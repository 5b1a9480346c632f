// Package servers holds tests against MCP servers that nobody of Everturn wrote: the reference servers of the protocol, a Git
// server with close to thirty tools, and gopls. Each of their tools is called through whole turns, on a real Temporal server
// with a real worker and a scripted model, over stdio and, where the server has it, HTTP; what the calls did is looked up on
// disk and in Git, where the servers had to leave it.
//
// A server that gets a tool which no test calls makes its test fail, so that an update of a server shows what is new.
package servers
