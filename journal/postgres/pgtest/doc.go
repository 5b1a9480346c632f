// Package pgtest runs a Postgres server of its own for tests, from the programs that Debian's package postgresql
// installs. The server belongs to an unprivileged user and listens on a Unix socket only.
package pgtest
