// Package postgres keeps the journal in a Postgres database, for workers on more than one machine.
//
// The tables are in the schema that the connection's search_path names first. Migrate creates them, under an advisory
// lock; Open only checks them, so that a worker never changes the schema.
//
// Transactions run at READ COMMITTED. A transaction that writes a turn first locks the session's row, so that
// transactions of a session run one after the other, in the order session, turn, call. A transaction that loses a race
// (serialization failure, deadlock, unique violation) or its connection is retried until its context ends or
// Options.RetryFor has passed. Reads see one snapshot.
//
// What a method has written survives a crash of the server if synchronous_commit is on, which is the default. Appended
// events need it too: a reader that has seen event n must never get a different event n.
//
// Followers are woken by one query for each process, every 40 ms while there are followers. LISTEN and NOTIFY are
// not used, because NOTIFY serializes the commits of the whole server.
package postgres
