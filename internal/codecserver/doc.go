// Package codecserver decrypts payloads over HTTP, for Temporal's Web UI and command line, which have no keys. It
// serves POST /decode and, if it is allowed, POST /encode, in the form that both send (docs.temporal.io/codec-server),
// and logs each use.
package codecserver
