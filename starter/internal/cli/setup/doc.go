// Package setup holds the commands that configure Everturn and check what it needs: the file agent.toml, MCP servers
// and their tools, the journal's tables.
package setup
