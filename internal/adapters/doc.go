// Package adapters makes what a configuration names: the model with its providers, the tools with the host of MCP
// servers, the instructions of skills and AGENTS.md. Package engine gives them to the activities; the command line asks
// them without a worker.
package adapters
