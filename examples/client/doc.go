// Command client asks one question, prints the answer as it is written, and asks on the terminal before a tool call
// runs that needs an approval. A worker must run: `go run ./starter dev`.
package main
