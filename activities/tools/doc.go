// Package tools is the registry of the tools that a worker's turns may call: typed Go functions of this program, which
// it calls directly, and the tools of MCP servers, which an mcp.Host calls. A tool ID says which of the two it is:
// local/<name> or mcp/<server>/<name>.
//
// The registry checks a call's arguments against the tool's schema (Check), runs the call (Call), and reports what
// tools there are (Catalogues, Watch). Package tool has what both kinds have in common, schema checks arguments, and
// files has tools that read a workspace.
package tools
