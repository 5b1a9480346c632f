// Package tools holds the modules of the programs that are built for development and tests: the Temporal server of
// --dev (temporal.mod), those of a fleet (server.mod) and the linters (lint.mod).
package tools

import _ "embed"

// TemporalMod and TemporalSum are the go.mod and go.sum of the Temporal CLI whose server --dev runs. They replace the
// SQLite driver that the CLI requires: after a request was given up in the middle of a statement, that driver fails
// every later statement, and the server stands still.
var (
	//go:embed temporal.mod
	TemporalMod []byte
	//go:embed temporal.sum
	TemporalSum []byte
)
