// Package form builds responses to elicitations, which are requests by an MCP server in the middle of a tool call. It
// parses the schema that the server sends, describes in words what each field takes, and turns what the user types into
// the JSON object that the server receives. It follows the elicitation of the Model Context Protocol (revision
// 2025-11-25): flat objects of strings, numbers, booleans and choices.
//
// The server writes the schema and every word in it, so the package bounds them and makes what it shows safe for a
// terminal. The package does no I/O; the command line and the chat both use it.
package form
