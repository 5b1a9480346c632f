// Command worker is Everturn's worker with a weak spot: it is built of the same engine as the real one, and wraps the
// journal that the engine is given so that the process kills itself, with SIGKILL, at a named point.
//
//	worker -config agent.toml -kill ClaimCall:after:2 -armed FILE -points FILE
//
// dies after the second ClaimCall that came once the file -armed was there, and notes that in -points before it does.
// Points are the journal's writing methods, before or after the real call, and insert:TABLE: in the middle of a write
// transaction, right after a row was inserted and before anything is committed.
//
// With -hold instead of -kill it waits at the point until the file -resume is there, so that something else can be broken
// just then.
//
// With -report it says, once all is closed, how many goroutines are left.
//
// Built with the tag mutants it has -mutant NAME: the same engine with one promise broken on purpose, to show that the
// checker notices. No mutant is in any other build.
package main
