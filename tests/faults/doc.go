// Command faults breaks everything around turns, and checks that every promise is kept nevertheless:
//
//	go run -C tests/faults .                  every point once, a few minutes
//	go run -C tests/faults . -runs 100        the long run
//	go run -C tests/faults . -point zombie    points whose name matches
//	go run -C tests/faults . -mutants         shows that the checker notices broken promises
//	go run -C tests/faults . -check DIR       judges ledgers that an earlier run has kept
//	go run -C tests/faults . -list -seed 7    shows what a seed makes of each point
//	go run -C tests/faults . -soak 30m        a hundred sessions for a long time, with one fault after the other
//
// A run is a seeded schedule: sessions with random turns and, in one of them, a fault at an observed point. The worker
// is the real command in a separate process (or, for points inside it, tests/faults/worker: the same engine, which ends
// itself there). Temporal is a real server with its database on disk. MCP servers are the worker's children. Proxies
// between worker, client, server and provider can break the network. The scripted provider lives in this process, which
// no schedule kills. After the fault everything is healed, the turns must end, another turn must work, and a last one
// must be offered every tool of every MCP server. Then package check judges the ledgers. A run that never reaches its
// point has failed.
//
// At the attack points an MCP server (tests/faults/hostile), the provider or an import attacks the worker while ten
// other sessions work. The worker's memory, descriptors and processor time are measured from outside and checked
// against bounds (gauge.go).
//
// A soak has two workers that survive it and are watched, and others that die. It is judged by the same checker, by
// whether every kind of fault has hit something, and by whether the resources of the survivors grow. With -docs
// any of these writes its figures into docs/faults.md. -point excludes -docs, because the page would lack the
// points that were not run.
//
// The exit code is 0 if every promise was kept and every point was reached, and 1 otherwise. A failed run keeps its
// ledgers and prints its seed: -seed and -point make the same schedule again, turns and fault, though not the same
// timing.
package main
