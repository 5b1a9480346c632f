// Command faults breaks everything around turns, and checks that nothing which was promised broke with it:
//
//	go run ./tests/faults                  every point once, a few minutes
//	go run ./tests/faults -runs 100        the long run
//	go run ./tests/faults -point zombie    points whose name matches
//	go run ./tests/faults -mutants         shows that the checker notices broken promises
//	go run ./tests/faults -check DIR       judges ledgers that an earlier run has kept
//	go run ./tests/faults -list -seed 7    shows what a seed makes of each point
//	go run ./tests/faults -soak 30m        a hundred sessions for a long time, with one fault after the other
//	go run ./tests/faults -restarts        200 turns of four calls each while their tool server is killed every 10 s
//
// A run is a seeded schedule: sessions with random turns and, in one of them, a fault at a point that was observed. The
// worker is the real command in a process of its own (or, for points inside it, tests/faults/worker: the same engine
// that ends itself there), Temporal is a real server with its database on disk, MCP servers are the worker's children,
// and between worker, client, server and provider are proxies that can break the network. The scripted provider lives
// in this process, which no schedule kills. After the fault everything is healed, the turns must come to their end,
// another one must work, and a last one must be offered every tool of every MCP server; then package check judges the
// ledgers. A run whose point was never reached has failed.
//
// At the attack points an MCP server (tests/faults/hostile), the provider or an import attacks the worker while ten other
// sessions work; the worker's memory, descriptors and processor time are measured from outside and held to bounds (gauge.go).
//
// A run of -restarts kills its tool server by the clock, and counts calls that were given up and turns that did not finish.
//
// A soak has two workers that live through it and are watched, and others that die; it is judged by the same checker, by
// whether every kind of fault has hit something, and by whether what the survivors hold grows. With -docs FILE any of these
// writes its figures into a page of documentation; not with -point, because what was not run would be blank there.
//
// The exit code is 0 where no promise was broken and every point was reached, and 1 otherwise. A failed run keeps its
// ledgers and prints its seed: -seed and -point make the same schedule again, turns and fault, though not the same moments.
package main
