// Command conformance is the tool host as a client of the official conformance suite of the Model Context Protocol (npm:
// @modelcontextprotocol/conformance). The suite starts a server for each of its scenarios and runs
//
//	conformance URL
//
// with the scenario's name in MCP_CONFORMANCE_SCENARIO and, for some, facts in MCP_CONFORMANCE_CONTEXT. The command configures
// a toolbox.Host with that one server as an operator would, connects, lists, calls every tool and accepts every question with
// nothing but its defaults. It knows hardly more of the scenarios than what the suite tells it.
//
// The tests of this package run the whole suite, in two versions, and hold it against a table of what is met and what is not,
// and why; the table in docs/mcp.md is written from it:
//
//	go test ./tests/conformance -update
package main
