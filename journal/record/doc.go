// Package record says what the journal keeps: the records of sessions, turns, inferences, calls and requests, their
// bounds and fixed texts, the form in which text is kept, the hash chain of a transcript, and the journal's errors. It
// reads and writes nothing.
package record
