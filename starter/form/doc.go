// Package form makes answers to what the servers of tools ask people in the middle of a call: it reads the schema that a
// server has sent, says in words what each field takes, and turns what a person types into the JSON object that the server
// gets. It follows the elicitation of the Model Context Protocol (revision 2025-11-25): flat objects of strings, numbers,
// booleans and choices.
//
// The schema, and every word in it, is a server's: it is bounded, and what is shown of it is made safe for a terminal here.
// The package touches nothing; the command line and the chat both use it.
package form
