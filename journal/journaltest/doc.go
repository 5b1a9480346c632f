// Package journaltest is the conformance suite of journal.Store: one check for each promise that the engine rests on.
// Every store runs it (Run), and those that several processes may open run RunPair besides.
//
// A suite that cannot fail proves nothing. Failing runs it against a store without a test's T and says which promises
// were broken; this package's own test breaks a good store in one way at a time and asks that the suite notices.
package journaltest
