// Package sessions is a session seen by its clients: it hands messages, approvals and answers to the session's workflow
// over Temporal, and stops it. Whatever is lost on the way, the same message is answered once.
//
// What a turn says is not here: it is read from the journal.
package sessions
