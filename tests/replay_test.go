package tests

import (
	"errors"
	"flag"
	"path/filepath"

	"github.com/stretchr/testify/require"

	kept "github.com/everturn/everturn/tests/replay"
)

// recordMissing makes the tests that keep a history write it if it is missing. Package replay documents the purpose:
//
//	go test ./tests -record
var recordMissing = flag.Bool("record", false, "record the kept histories that are missing")

// keep records a run's history if -record is set. It does not overwrite an existing history.
func (e *env) keep(name, session, run string) {
	e.t.Helper()
	if !*recordMissing {
		return
	}
	err := kept.Keep(filepath.Join("..", kept.Dir), name, e.events(session, run))
	if errors.Is(err, kept.ErrKept) {
		e.t.Log(err)
		return
	}
	require.NoError(e.t, err)
	e.t.Logf("recorded %s", name)
}
