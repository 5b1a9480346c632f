package engine

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"github.com/everturn/everturn/config"
)

// fakeWorker is a worker of the SDK that reports a fatal error as soon as it polls.
type fakeWorker struct {
	worker.Worker
	options worker.Options
	cause   error
	stopped bool
}

func (w *fakeWorker) Start() error {
	if w.cause != nil {
		w.options.OnFatalError(w.cause)
	}
	return nil
}

func (w *fakeWorker) Stop() { w.stopped = true }

func TestAWorkerThatTemporalRejectsStops(t *testing.T) {
	cause := errors.New("namespace not found")
	for name, causes := range map[string][2]error{"for turns": {cause, nil}, "for bound calls": {nil, cause}} {
		cfg := config.Default()
		cfg.Journal.Path = filepath.Join(t.TempDir(), "journal.db")
		e := newEngine(cfg, nil)
		require.NoError(t, e.openModel(t.Context()))
		require.NoError(t, e.openTools(t.Context()))
		require.NoError(t, e.openInstructions(t.Context()))
		require.NoError(t, e.openJournal(t.Context()))
		turns := &fakeWorker{options: e.workerOptions(), cause: causes[0]}
		bound := &fakeWorker{options: e.workerOptions(), cause: causes[1]}
		e.workers = []worker.Worker{turns, bound}
		assert.ErrorIs(t, e.Run(t.Context()), cause, name)
		assert.True(t, turns.stopped && bound.stopped, name)
		require.NoError(t, e.Close())
	}
}
