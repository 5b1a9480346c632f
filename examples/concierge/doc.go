// Command concierge is an agent in one program and in a module of its own: a worker with two Go functions as tools, and
// the client that sends it messages. It prints what the model writes, and asks on the terminal before it reserves a
// table, because the session then has text of a stranger. -yes approves every call.
//
// It needs a Temporal server that was started in this folder: `../../everturn dev --no-worker`. Without an API key the
// demo model answers, which calls the tool that a message names.
package main
