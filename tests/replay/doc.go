// Package replay keeps histories of turns, and replays them on the code as it is.
//
// A worker that takes over a running turn replays its history. If the workflow code does not schedule what the history
// holds, the turn is stuck until that code is rolled back. So every shape of history that was ever shipped is kept
// under tests/testdata/histories, recorded from a run on a real server, and replayed on each change: in seconds,
// without a server.
//
//	go test ./tests/replay -v
//
// # Adding a history
//
// Add a row with its name and what happens in it to the README beside the histories. Then have an end-to-end test of
// package tests keep it, with a line such as
//
//	r.keep("v1-approval", session, run.GetRunID())
//
// and run that test with -record, which records missing histories and never replaces one:
//
//	go test ./tests -run '^TestAnApprovalTheNextDay$' -record
//
// The history must replay before it is written.
//
// A released history is never overwritten, edited or deleted, because a turn may be in the middle of it. SHA256SUMS
// beside the files, to which recording appends, has their sums. Code that changes a shape keeps the old behavior for
// turns of the old behavior version, and records the new shape under a new name that begins with the new behavior
// version.
//
// # What a replay checks
//
// The SDK compares the commands that the code gives with the events of the history: kinds, types and IDs of activities,
// timers, markers. Run adds three checks that the SDK leaves out: which inference or call an activity is for, how a run
// ends that does not complete, and why a completed run ends. The history records only the result of a quick call, which
// names its call: one failed quick call could be mistaken for another. Run does not compare prompts, limits or texts,
// which may change freely. The panic policy is that of a production worker: incompatible code is an error. The test
// environment's policy would end the run as failed and, for a history that ends so, call that a success.
package replay
