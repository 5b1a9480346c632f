package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
)

// within bounds how long a schedule waits for its point. It decides nothing: a schedule that waits this long has
// failed.
const within = 3 * time.Minute

// reach waits until a condition holds.
func reach(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return await(ctx, what, ok)
}

// atGate waits until the provider's answer has reached the gate.
func (r *harness) atGate(ctx context.Context) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-r.gate.Reached():
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return fmt.Errorf("the point in the answer was never reached")
}

// noted waits until the tool's ledger has an event of a call.
func (r *harness) noted(ctx context.Context, event, key string) error {
	return reach(ctx, event+" of "+key, func() bool { return r.count(event, key) > 0 })
}

// count returns how often the tool's ledger has an event of a call.
func (r *harness) count(event, key string) int {
	b, err := os.ReadFile(r.toolLedger())
	if err != nil {
		return 0
	}
	line, _ := json.Marshal(struct {
		Event string `json:"event"`
		Text  string `json:"text"`
	}{event, key}) // strings always marshal
	return bytes.Count(b, append(line[:len(line)-1], ',')) // the time follows
}

// died waits until the first worker has ended itself at its point.
func (r *harness) died(ctx context.Context) error {
	if err := reach(ctx, "the worker's point", r.first().gone); err != nil {
		return err
	}
	b, err := os.ReadFile(inDir(r.dir, "points.jsonl"))
	if err != nil || len(b) == 0 || !r.first().killed() {
		return fmt.Errorf("the worker ended elsewhere than at its point: %s", tail(r.first().log))
	}
	return nil
}

// requests returns the provider's requests of the target's step, counted from 0.
func (r *harness) requests(step int) []fakellm.Request {
	var out []fakellm.Request
	for _, q := range r.model.Requests() {
		if q.Step == step && q.Chat.Asked() == r.target.text {
			out = append(out, q)
		}
	}
	return out
}

// askedTwice waits until the provider has received a request of the target's step for the second time.
func (r *harness) askedTwice(ctx context.Context, step int) error {
	return reach(ctx, "a second request", func() bool { return len(r.requests(step)) > 1 })
}

// turnID returns the target's turn, or "" if it has not begun.
func (r *harness) turnID(ctx context.Context) string {
	turns, err := r.journal.Turns(ctx, r.target.session)
	if err != nil {
		return ""
	}
	for _, t := range turns {
		if t.MessageID == r.target.id {
			return t.ID
		}
	}
	return ""
}

// mcpServer returns the process ID of an MCP server's latest process.
func (r *harness) mcpServer(id string) (int, error) {
	b, err := os.ReadFile(r.pidfile(id))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// settled returns how many calls of one of the target's steps, from 1, have an outcome in the journal.
func (r *harness) settled(ctx context.Context, step int) int {
	calls, err := r.journal.Calls(ctx, r.turnID(ctx))
	if err != nil {
		return 0
	}
	n := 0
	for _, c := range calls {
		if c.Step == step && c.Outcome != "" {
			n++
		}
	}
	return n
}
