// Package tables stores the journal's records in the tables of a Database: it has transactions, the encryption of
// content, blobs, and queries of each table. Package journal has the rules about turns.
//
// Sessions, turns, calls and inferences have two names: the ID that callers use, a string such as Scope.TurnID, and the
// number of the row, an int64 such as Scope.Turn.
package tables
