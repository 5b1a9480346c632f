// Package devserver starts a Temporal server for development and shares it between the commands that use it.
//
// The server is the child of a supervisor, a separate process that outlives the command that started it. Every user of
// the stack holds a shared lock on a file, and the supervisor waits for the exclusive lock. It gets the lock when the
// last user has ended, for whatever reason, and then stops the server. The kernel releases the lock of a user that is
// killed, and the server dies with its supervisor (Pdeathsig), so a killed supervisor leaves no orphan either.
//
//	user ──┐ shared lock                       ┌─ temporal server
//	user ──┴──────────────── stack.lock ── supervisor (exclusive: no user is left)
//
// No port of the server accepts a change from a web page: the HTTP API is closed, and the supervisor serves the Web UI
// itself, only under the names of this machine and only to pages of the UI. The package needs all of 127.0.0.0/8 on the
// loopback interface, as on Linux.
package devserver
