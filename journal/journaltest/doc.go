// Package journaltest is the conformance suite of DB: one check for each promise that the engine relies on.
// Every journal runs it (Run), and journals that several processes may open also run RunPair.
//
// A suite that cannot fail proves nothing. Failing runs it against a journal without a testing.T and returns the
// promises that were broken; this package's own test breaks a good journal in one way at a time and requires that the
// suite notices.
package journaltest
