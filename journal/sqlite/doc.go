// Package sqlite keeps the journal in one SQLite file. It is the default, and suitable for one machine: any number of
// processes on it may have the file open at once.
//
// Each process writes through one connection. Each write is a BEGIN IMMEDIATE transaction, or shares one with other
// writes that wait at the same time. Reads have a small pool of connections and never wait for a writer (WAL). A
// transaction that finds the file busy is retried until its context ends or Options.BusyTimeout has passed. A context
// is honoured while waiting and not in the middle of a transaction: transactions are short, and the caller of a
// half-cancelled one could not know whether it was committed.
//
// With Synchronous "full", the default, what a method has returned survives a power failure. With "normal" it survives
// the death of any process; a power failure may lose the last moments, but never the file's consistency.
//
// Open creates the schema of migrations/. A file lock beside the journal keeps two processes from creating it at once.
package sqlite
