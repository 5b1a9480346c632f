// Command worker is Everturn's worker with a weak spot: it uses the same engine as the real one, and wraps the engine's
// journal so that the process kills itself, with SIGKILL, at a named point.
//
//	worker -config agent.toml -kill ClaimCall:after:2 -armed FILE -points FILE
//
// dies after the second ClaimCall that comes once the file -armed exists, and records that in -points before it dies.
// Points are the journal's writing methods, before or after the real call, and insert:TABLE: in the middle of a write
// transaction, right after a row was inserted and before anything is committed.
//
// With -hold instead of -kill it waits at the point until the file -resume exists, so that something else can be broken
// meanwhile.
//
// With -report it reports, once everything is closed, how many goroutines are left.
//
// Built with the tag mutants it accepts -mutant NAME: the same engine with one promise broken on purpose, to show that
// the checker notices. No other build contains a mutant.
package main
