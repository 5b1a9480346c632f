package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/bench/report"
	"github.com/everturn/everturn/workflows/turn"
)

// delays are the times from when the provider sent a delta until a terminal received it: for the first delta of an
// answer, for the first of each burst (including that one), and for every delta.
type delays struct {
	mu                 sync.Mutex
	first, burst, each []time.Duration
}

// terminals measures how long a model's words take to reach a terminal: the real command line, attached in its own
// process, with its output read from a pipe.
func (c *crowd) terminals(ctx context.Context, size crowdSize) ([]report.Waited, error) {
	everturn, err := c.harness.buildCLI(ctx)
	if err != nil {
		return nil, err
	}
	var alone, crowded delays
	for range size.turns {
		if err := c.terminal(ctx, everturn, c.session(), scene{Kind: sceneStream, ThinkMS: 500, Bursts: size.bursts},
			&alone); err != nil {
			return nil, err
		}
		fmt.Fprint(c.harness.progress, ".")
	}
	names := make([]string, size.crowded)
	for i := range names {
		names[i] = c.session()
	}
	err = each(size.crowded, atOnce, func(i int) error {
		return c.terminal(ctx, everturn, names[i], scene{Kind: sceneStream, ThinkMS: 2500, Bursts: 2 * size.bursts}, &crowded)
	})
	many := fmt.Sprintf("%d turns at once: ", atOnce)
	out := []report.Waited{
		report.Wait("one turn: the answer's first byte", alone.first),
		report.Wait("one turn: the first byte after each silence", alone.burst),
		report.Wait("one turn: every delta", alone.each),
		report.Wait(many+"the answer's first byte", crowded.first),
		report.Wait(many+"the first byte after each silence", crowded.burst),
		report.Wait(many+"every delta", crowded.each),
	}
	for _, i := range []int{0, 1, 3, 4} {
		out[i].AimP50, out[i].AimP99 = 30, 100
	}
	return out, err
}

// terminal runs one turn and a terminal that shows it.
func (c *crowd) terminal(ctx context.Context, everturn, session string, s scene, to *delays) (err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := c.sendTo(ctx, session, s); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, everturn, "attach", session, "-o", "jsonl", "--config", c.config)
	cmd.Env = os.Environ()
	var output strings.Builder
	cmd.Stderr = &output
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	attached, opened := time.Time{}, false
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		at := time.Now()
		if attached.IsZero() {
			attached = at
		}
		var event turn.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return errors.Join(fmt.Errorf("the terminal shows %q: %w", lines.Text(), err), cmd.Wait())
		}
		if event.Kind == turn.EventTextDelta {
			to.note(event.Text, at, attached, !opened)
			opened = true
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the terminal of %s: %w: %s", session, err, output.String())
	}
	return nil
}

// note records the deltas of an event that arrived at a time. It ignores deltas that were sent before the terminal was
// attached.
func (d *delays) note(text string, at, attached time.Time, first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, stamp := range strings.Fields(text) {
		digits, opens := strings.CutPrefix(stamp, firstMark)
		nanos, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || time.Unix(0, nanos).Before(attached) {
			continue
		}
		took := at.Sub(time.Unix(0, nanos))
		d.each = append(d.each, took)
		if first && i == 0 {
			d.first = append(d.first, took)
		}
		if opens {
			d.burst = append(d.burst, took)
		}
	}
}
