// Command faults breaks everything around turns, and checks that nothing which was promised broke with it:
//
//	go run ./tests/faults                  every point once, a few minutes
//	go run ./tests/faults -runs 100        the long run
//	go run ./tests/faults -point zombie    points whose name matches
//	go run ./tests/faults -mutants         shows that the checker notices broken promises
//	go run ./tests/faults -check DIR       judges ledgers that an earlier run has kept
//
// A run is a seeded schedule: sessions with random turns and, in one of them, a fault at a point that was observed. The
// worker is the real command in a process of its own (or, for points inside it, tests/faults/worker: the same engine
// that ends itself there), Temporal is a real server with its database on disk, MCP servers are the worker's children,
// and between worker, client, server and provider are proxies that can break the network. The scripted provider lives
// in this process, which no schedule kills. After the fault everything is healed, the turns must come to their end and
// another one must work; then package check judges the ledgers. A run whose point was never reached has failed.
//
// The exit code is 0 where no promise was broken and every point was reached, and 1 otherwise. A failed run keeps its
// ledgers and prints its seed: -seed and -point make the same schedule again.
package main
