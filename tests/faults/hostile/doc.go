// Command hostile is an MCP server that attacks its host. It behaves until the file -armed appears, then attacks until
// that file is gone:
//
//	hostile -attack ping -armed FILE -ledger FILE             over stdio
//	hostile -attack ping -armed FILE -ledger FILE -http ADDR  over streamable HTTP; the URL is printed on stdout
//
// The attacks:
//
//	ping    stdio: ping requests as fast as the host reads, and not one byte read from stdin. HTTP: pings on the GET
//	        stream; the answer to each of the host's replies is held back
//	call    HTTP: the same inside the SSE answer of a call
//	notify  notifications: the list of tools changed, and log messages
//	stderr  lines on standard error
//	elicit  5,000 questions to the user (elicitation/create) from one call
//
// and these answers to calls, over HTTP:
//
//	headers  9 MB of response headers
//	case     5 million values in a stream of events whose media type is in another letter case
//	line     one line of 15 MB that is not a field of an event stream
//	error    a GB of events with an error status
//	results  a text of 15 MB, for all calls at the same moment
//
// The bytes and the messages of an attack are bounded, so that a host that takes them all does not take down the
// machine. The ledger gets a line when a process starts, one when it first attacks, and one with the number of messages
// when an attack ends.
package main
