package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/tests/bench/report"
	"github.com/everturn/everturn/workflows/turn"
)

const (
	// readStreams is the number of turns that stream in parallel, and steadyDeltas is the number of deltas of each: 30 s.
	readStreams  = 100
	steadyDeltas = 600
	// readerReady is the time from the start of the turns to their first deltas, in which the reader starts.
	readerReady = 15 * time.Second
)

// streams measures how long the deltas of many turns take to reach another process that follows all of them.
func (c *crowd) streams(ctx context.Context) ([]report.Waited, error) {
	turns, names := make([]string, readStreams), make([]string, readStreams)
	for i := range names {
		names[i] = c.session()
	}
	err := each(readStreams, readStreams, func(i int) error {
		a, err := c.sendTo(ctx, names[i],
			scene{Kind: sceneSteady, ThinkMS: int(readerReady.Milliseconds()), Bursts: steadyDeltas})
		turns[i] = a.ID
		return err
	})
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(turns)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, c.harness.self, "reader", c.harness.postgresJournal(c.name))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("reading the streams: %w", err)
	}
	var took []time.Duration
	if err := json.Unmarshal(out, &took); err != nil {
		return nil, err
	}
	if len(took) != readStreams*steadyDeltas {
		return nil, fmt.Errorf("%d of %d deltas were read live", len(took), readStreams*steadyDeltas)
	}
	w := report.Wait(fmt.Sprintf("%d turns at once, 20 deltas a second each: every delta", readStreams), took)
	w.AimP95 = 150
	return []report.Waited{w}, nil
}

// readerRole follows the turns whose IDs are on standard input in the journal of args[0], and prints the delays of all
// deltas that were sent after it began.
func readerRole(ctx context.Context, args []string) error {
	var turns []string
	if err := json.NewDecoder(os.Stdin).Decode(&turns); err != nil {
		return err
	}
	j, err := postgres.Open(ctx, args[0], postgres.Options{})
	if err != nil {
		return err
	}
	var all delays
	attached := time.Now()
	err = each(len(turns), len(turns), func(i int) error {
		for event, err := range follow.Turn(ctx, j, turns[i], -1) {
			if err != nil {
				return err
			}
			if event.Kind == turn.EventTextDelta {
				all.note(event.Text, time.Now(), attached, false)
			}
		}
		return nil
	})
	return join(join(err, j.Close()), json.NewEncoder(os.Stdout).Encode(all.each))
}
