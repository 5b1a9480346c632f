package main

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/tests/bench/report"
)

func TestOnlyAWholeRunIsAccepted(t *testing.T) {
	for _, part := range [][]string{{"-smoke"}, {"-only", "answer"}, {"-profile", "x"}} {
		p := parse(append(part, "-accept", "faster"), io.Discard, io.Discard)
		assert.ErrorContains(t, p.check(), "only a whole run can be accepted")
		assert.NoError(t, parse(part, io.Discard, io.Discard).check())
	}
	assert.ErrorContains(t, parse([]string{"-only", "nothing"}, io.Discard, io.Discard).check(), "five hops")
	assert.ErrorContains(t, parse([]string{"extra"}, io.Discard, io.Discard).check(), "no flag")
	assert.ErrorContains(t, parse([]string{"-accept", "-smoke"}, io.Discard, io.Discard).check(), "no reason")
	assert.NoError(t, parse([]string{"-accept", "faster"}, io.Discard, io.Discard).check())
}

func TestTheLastRunIsAcceptedWhereItWasAWholeOne(t *testing.T) {
	p := parse([]string{"-last", "-accept", "looked at", "-out", t.TempDir()}, io.Discard, io.Discard)
	_, err := p.run(t.Context())
	assert.ErrorContains(t, err, "there is no last run")
	require.NoError(t, writeJSON(p.file(), report.Result{Smoke: true}))
	_, err = p.run(t.Context())
	assert.ErrorContains(t, err, "not a whole one")
	assert.Error(t, parse([]string{"-last"}, io.Discard, io.Discard).check())
}

// A page whose tables are not those of the accepted run is stale: make bench-accept writes them.
func TestTheDocumentsHaveTheFiguresOfTheAcceptedRun(t *testing.T) {
	accepted, err := readJSON("baseline.json")
	require.NoError(t, err)
	for file, write := range map[string]func(io.Writer, report.Result){
		"../../docs/benchmarks.md": report.Page, "../../README.md": report.Summary,
	} {
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		fresh, err := report.Insert(page, accepted, write)
		require.NoError(t, err)
		assert.Equal(t, string(fresh), string(page), file)
	}
}

func TestADoomedArmBreaksOnALimit(t *testing.T) {
	assert.True(t, expected("Blob data size exceeds limit."))
	assert.False(t, expected("connection refused"))
}
