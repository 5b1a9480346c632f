// Command embed is an agent with typed tools in one Go program: it runs a worker that offers two Go functions to the
// model, asks a question, prints the answer and ends. Booking a table needs an approval, because its risk is high. It
// needs a Temporal server: `./everturn dev --no-worker` starts one.
package main
