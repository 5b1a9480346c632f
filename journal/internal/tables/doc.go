// Package tables is how the journal's records are kept in the tables of a Database: transactions, the encryption of
// content, blobs, and the rows of each table. It knows no rules about turns; package journal has those.
package tables
