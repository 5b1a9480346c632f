// Package devstack brings up a Temporal server for development and shares it between the commands that use it.
//
// The server is the child of a supervisor, a process of its own that outlives the command that started it. Every user
// of the stack holds a shared lock on a file, and the supervisor waits for the exclusive one: it gets it when the last
// user is gone, however that came about, and then stops the server. Locks belong to processes, so a user that is
// killed lets go; and the server dies with its supervisor (Pdeathsig), so killing that leaves no orphan either.
//
//	user ──┐ shared lock                       ┌─ temporal server
//	user ──┴──────────────── stack.lock ── supervisor (exclusive: nobody is left)
//
// No port of the server takes a change from a web page: the HTTP API is closed, and the supervisor serves the Web UI itself,
// under the names of this machine and to pages of the UI alone. It needs all of 127.0.0.0/8 on loopback, as Linux has it.
package devstack
