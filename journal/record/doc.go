// Package record defines what the journal stores: the records of sessions, turns, inferences, calls and requests, their
// bounds and fixed texts, the clean form of texts, the hash chain of a transcript, and the journal's errors. It does no
// input or output.
package record
