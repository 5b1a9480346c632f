package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/workflows/turn"
)

// Health says whether turns can run now.
type Health struct {
	// Temporal is the version of the server; empty if it does not answer.
	Temporal string `json:"temporal,omitempty"`
	// Journal is whether the journal can be read.
	Journal bool `json:"journal"`
	// Workers is the number of workers that poll the client's task queue for turns, as Temporal lists them: one that was
	// killed counts for some minutes.
	Workers int `json:"workers"`
	// FailingServers are the MCP servers that no running worker of the task queue can use.
	FailingServers []string `json:"failing_servers,omitempty"`
	// Problems says what is wrong, for display.
	Problems []string `json:"problems,omitempty"`
}

// Ready reports whether a message that is sent now is answered: Temporal and the journal answer, and a worker polls.
func (h Health) Ready() bool { return h.Temporal != "" && h.Journal && h.Workers > 0 }

// healthChecksWithin bounds Client.Health.
const healthChecksWithin = 5 * time.Second

// Health asks Temporal and the journal whether turns can run. It takes at most five seconds.
func (c *Client) Health(ctx context.Context) (h Health) {
	ctx, cancel := context.WithTimeout(ctx, healthChecksWithin)
	defer cancel()
	problem := func(err error) {
		if err != nil {
			h.Problems = append(h.Problems, err.Error())
		}
	}
	var err error
	if c.temporal == nil {
		problem(ErrUnreachable)
	} else if h.Temporal, err = temporalconn.ServerVersion(ctx, c.temporal); err != nil {
		problem(err)
	} else {
		found, err := temporalconn.Pollers(ctx, c.temporal, c.options.TaskQueue)
		problem(err)
		if h.Workers = len(found); err == nil && h.Workers == 0 {
			problem(errors.New("no worker polls task queue " + c.options.TaskQueue))
		}
	}
	if c.journal == nil {
		problem(ErrNoJournal)
		return h
	}
	workers, err := c.journal.Workers(ctx)
	h.Journal = err == nil
	problem(err)
	available := map[string]bool{}
	for _, w := range workers {
		for _, s := range w.Servers {
			if w.TaskQueue == c.options.TaskQueue {
				available[s.Server] = available[s.Server] || s.State != turn.ServerFailing
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(available)) {
		if !available[name] {
			h.FailingServers = append(h.FailingServers, name)
		}
	}
	return h
}
