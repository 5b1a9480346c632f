// Command conformance runs the tool host as a client under the official conformance suite of the Model Context Protocol
// (npm: @modelcontextprotocol/conformance). The suite starts a server for each of its scenarios and runs
//
//	conformance URL
//
// with the scenario's name in MCP_CONFORMANCE_SCENARIO and, for some, facts in MCP_CONFORMANCE_CONTEXT. The command
// configures a mcp.Host with that one server as an operator would, connects, lists, calls every tool and accepts
// every elicitation with nothing but its defaults. It knows little more about the scenarios than what the suite tells
// it.
//
// The tests of this package run the whole suite, in two versions, and compare the results with a table of what is met
// and what is not, and why. The table in docs/mcp.md is generated from it:
//
//	go test ./tests/conformance -update
package main
