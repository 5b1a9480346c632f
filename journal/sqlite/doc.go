// Package sqlite keeps the journal in one SQLite file. It is the default, good for one machine: any number of processes
// there may have the file open at once.
//
// Writes go through one connection a process, each as one BEGIN IMMEDIATE transaction; reads have a small pool of
// their own and never wait for a writer (WAL). A transaction that finds the file busy is tried again until its context
// ends or Options.BusyTimeout has passed. A context is honoured while waiting and not in the middle of a
// transaction: those are short, and a half-cancelled one would leave its caller guessing.
//
// With Synchronous "full", the default, what a method has answered survives a power cut; with "normal" it survives
// the death of any process, and a power cut may take the last moments (never the file's consistency).
//
// Open creates the schema of migrations/. A file lock beside the journal keeps two processes from doing it at once.
package sqlite
