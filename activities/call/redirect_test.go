package call

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/everturn/everturn/journal/fleet"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// mixedFleet is a journal with two versions of the local tools, and the workers that run.
type mixedFleet struct {
	wholeJournal
	workers []fleet.WorkerReport
}

func (f mixedFleet) Workers(context.Context) ([]fleet.WorkerReport, error) { return f.workers, nil }

func (f mixedFleet) OfferedBy(context.Context, map[string]string) ([]turn.Catalogue, error) {
	return []turn.Catalogue{
		{Server: "local", Hash: "new", Tools: []turn.Descriptor{described("local/a", "2"), described("local/b", "1")}},
		{Server: "local", Hash: "old", Tools: []turn.Descriptor{described("local/a", "1")}},
	}, nil
}

// TestACallGoesToAWorkerThatHasItsTool checks to which task queue a worker sends a call that it cannot run.
func TestACallGoesToAWorkerThatHasItsTool(t *testing.T) {
	worker := func(home, queue, version string) fleet.WorkerReport {
		return fleet.WorkerReport{ID: home, Home: home, TaskQueue: queue, Offers: map[string]string{"local": "/" + version}}
	}
	var absent, drift error = turn.ToolAbsent("local/a"), turn.NewError(turn.CodeToolDrift, nil, "local/a has changed")
	for name, c := range map[string]struct {
		pinned  turn.Descriptor
		err     error
		workers []fleet.WorkerReport
		queue   string // empty: err stays
	}{
		"absent here":           {described("local/a", "1"), absent, []fleet.WorkerReport{worker("h", "q", "old")}, "h"},
		"another version here":  {described("local/a", "1"), drift, []fleet.WorkerReport{worker("h", "q", "old")}, "h"},
		"no such version":       {described("local/a", "3"), drift, []fleet.WorkerReport{worker("h", "q", "old")}, ""},
		"its worker is away":    {described("local/a", "1"), absent, []fleet.WorkerReport{worker("h", "q", "new")}, ""},
		"of another task queue": {described("local/a", "1"), absent, []fleet.WorkerReport{worker("h", "r", "old")}, ""},
		"only this worker":      {described("local/a", "1"), drift, []fleet.WorkerReport{worker("here", "q", "old")}, ""},
		"another error": {described("local/a", "1"), turn.NewError(turn.CodeToolNotSent, nil, "refused"),
			[]fleet.WorkerReport{worker("h", "q", "old")}, ""},
	} {
		a := &Runner{journal: mixedFleet{workers: c.workers}, home: "here", taskQueue: "q"}
		err := a.redirect(t.Context(), workflows.CallInput{Tool: c.pinned.Pinned()}, c.err)
		if c.queue == "" {
			assert.Equal(t, c.err, err, name)
			continue
		}
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, name)
		var queue string
		require.NoError(t, app.Details(&queue), name)
		assert.Equal(t, c.queue, queue, name)
	}
}

func described(id, hash string) turn.Descriptor {
	return turn.Descriptor{ID: id, Wire: turn.WireName(id), Hash: hash}
}
