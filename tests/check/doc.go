// Package check states the promises of docs/guarantees.md once, for the faults, their mutants, the generated sequences
// and the end-to-end tests. It judges offline what a system has done: it joins ledgers that were written independently
// of each other, and reports every promise that they show to be broken. On disk they are:
//
//	provider.jsonl    each request that the scripted model got, its bytes, and whether its answer got out whole
//	tool.jsonl        each effect, synced to disk by the tool itself before it went on
//	client.jsonl      what clients sent and decided, what was acknowledged or refused, and what they were told in the end
//	waits.jsonl       the requests of turns and their decisions, as the journal's own table has them
//	stream.jsonl      the events as a client read them live, in the order of their arrival
//	histories/*.json  every run that Temporal knows, as the server has it
//	journal/*.jsonl   the sessions, as the journal exports them
//	processes.jsonl   what each worker left when it ended, and processes that outlived it
//	sinks/*           everything else that must not hold a secret, such as the histories
//	run.json          what the schedule did: canaries, and how often it interrupted
//
// No ledger is believed alone: the journal's record that a call has run is compared with the tool's own count of
// effects, its transcript with what the provider was shown, and its turns with what the client and Temporal know.
//
// End-to-end tests keep what the journal and Temporal have (Ledgers.Partial); the others keep everything.
//
// A violation names its invariant, I1 to I9.
package check
