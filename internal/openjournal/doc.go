// Package openjournal opens, creates and copies the journal that a configuration names: a SQLite file or a Postgres
// database, encrypted or not.
package openjournal
