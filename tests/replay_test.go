package tests

import (
	"errors"
	"flag"
	"path/filepath"

	"github.com/stretchr/testify/require"

	kept "github.com/everturn/everturn/tests/replay"
)

// record writes the kept histories that are missing, of the tests that keep one. Package replay says what that is for:
//
//	go test ./tests -record
var record = flag.Bool("record", false, "record the kept histories that are missing")

// keep records a run's history where -record asks for it. One that is there already stays as it is.
func (r *rig) keep(name, session, run string) {
	r.t.Helper()
	if !*record {
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
