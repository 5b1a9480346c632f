// Package servers holds tests against third-party MCP servers: the protocol's reference servers, a Git server with
// close to thirty tools, and gopls. The tests call each of their tools through whole turns, on a real Temporal server
// with a real worker and a scripted model, over stdio and, if the server supports it, HTTP. They check the effects of
// the calls on disk and in Git.
//
// If a server gets a tool that no test calls, its test fails, so that an update of a server shows what is new.
package servers
