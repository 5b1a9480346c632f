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
func (r *env) keep(name, session, run string) {
	r.t.Helper()
	if !*recordMissing {
		return
	}
	err := kept.Keep(filepath.Join("..", kept.Dir), name, r.events(session, run))
	if errors.Is(err, kept.ErrKept) {
		r.t.Log(err)
		return
	}
	require.NoError(r.t, err)
	r.t.Logf("recorded %s", name)
}
