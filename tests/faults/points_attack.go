package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/everturn/everturn/tests/loopback"
)

const (
	// attackFor is how long an attack lasts.
	attackFor = 6 * time.Second
	// bystanders are the sessions that work meanwhile, with a pause of bystanderPause between two turns.
	bystanders     = 10
	bystanderPause = 2 * time.Second
	// poke is the tool of the hostile server.
	poke = "mcp_hostile_poke"
	// mostQuestions is how many elicitations of one call may become requests.
	mostQuestions = 64
)

// attacks returns the points at which an MCP server, a provider or an export attacks the worker.
func attacks() []point {
	return append([]point{
		attacked("attack_ping_stdio", "an MCP server sends pings without end and never reads its stdin",
			attack{kind: "ping"}),
		attacked("attack_ping_get", "an MCP server sends pings on the GET stream and holds the replies back",
			attack{kind: "ping", http: true}),
		attacked("attack_ping_call", "an MCP server sends pings in a call's answer and holds the replies back",
			attack{kind: "call", http: true}),
		attacked("attack_notify", "an MCP server sends notifications without end", attack{kind: "notify"}),
		attacked("attack_stderr", "an MCP server writes on stderr without end", attack{kind: "stderr"}),
		attacked("attack_elicit", "an MCP server asks 5,000 questions in one call", attack{kind: "elicit"}),
		attacked("attack_case", "an MCP server answers with 5 million values in a stream of events, written Event-Stream",
			attack{kind: "case", http: true, calls: 8}),
		attacked("attack_line", "an MCP server answers with a line of 15 MB that is no field of an event",
			attack{kind: "line", http: true, calls: 8}),
		attacked("attack_headers", "an MCP server answers with 9 MB of headers",
			attack{kind: "headers", http: true, calls: 8, kept: true}),
		attacked("attack_error", "an MCP server answers with an error and a GB of events",
			attack{kind: "error", http: true, calls: 8, kept: true}),
		attacked("attack_results", "an MCP server answers 8 calls at once with 15 MB each", attack{
			kind: "results", http: true, calls: 8, kept: true, resident: resultsResident, lasts: 12 * time.Second,
		}),
	}, append(bombs(), forged())...)
}

// attack is what the hostile server does.
type attack struct {
	kind     string // see tests/faults/hostile
	http     bool
	calls    int           // that the target makes at once; 0: one
	kept     bool          // its connection need not be dropped
	resident int64         // the most memory that the worker may take; 0: boundResident
	lasts    time.Duration // 0: attackFor
}

// attacked makes a point at which an MCP server attacks the worker while other sessions work. The target calls the
// hostile server's tool when the attack has begun.
func attacked(name, about string, a attack) point {
	return point{
		name: name, about: about,
		shape: func(r *harness) {
			r.settings.toolTimeout = 5 * time.Second
			r.target.add(max(a.calls, 1), func(int) string { return poke })
			r.target.add(1, func(int) string { return again })
		},
		prepare: func(r *harness, ctx context.Context) error { return r.invite(ctx, a.kind, a.http) },
		act: func(ctx context.Context, r *harness) error {
			return r.besieged(ctx, cmp.Or(a.resident, boundResident), func(attack context.Context) error {
				if err := os.WriteFile(r.attackFile(), nil, 0o600); err != nil {
					return err
				}
				r.converse(ctx, r.target, true)
				err := reach(attack, "the attack", r.attackNoted)
				if err == nil {
					err = pause(attack, cmp.Or(a.lasts, attackFor))
				}
				return errors.Join(err, os.Remove(r.attackFile()))
			})
		},
		then: func(ctx context.Context, r *harness) error {
			requests, err := r.journal.Requests(ctx, r.turnID(ctx))
			if err == nil && len(requests) > mostQuestions {
				err = fmt.Errorf("%d questions of one call wait for a person: at most %d", len(requests), mostQuestions)
			}
			if a.kept {
				return err
			}
			return errors.Join(err, r.dropped(ctx))
		},
	}
}

// attackNoted reports whether the hostile server's ledger says that it attacks.
func (r *harness) attackNoted() bool {
	b, err := os.ReadFile(r.hostileLedger())
	return err == nil && bytes.Contains(b, []byte(`"attack"`))
}

func (r *harness) hostileLedger() string { return inDir(r.dir, "hostile.jsonl") }

func (r *harness) attackFile() string { return inDir(r.dir, "attack") }

// invite configures the hostile server.
func (r *harness) invite(ctx context.Context, kind string, overHTTP bool) error {
	args := []string{"-attack", kind, "-armed", r.attackFile(), "-ledger", r.hostileLedger()}
	section := fmt.Sprintf("command = %q\nargs = [\"%s\"]\ntimeouts.elicitation = \"2s\"\n",
		r.programs.hostile, strings.Join(args, `", "`))
	if overHTTP {
		at, err := loopback.Address()
		if err != nil {
			return err
		}
		p, err := spawn(inDir(r.dir, "hostile.log"), r.programs.hostile, os.Environ(), append(args, "-http", at)...)
		if err != nil {
			return err
		}
		r.onClose(p.kill)
		r.remoteServer = p
		if err := reach(ctx, "the hostile server over HTTP",
			func() bool { return p.gone() || p.logged("/mcp\n") }); err != nil {
			return err
		}
		section = fmt.Sprintf("url = \"http://%s/mcp\"\n", at)
	}
	r.settings.extra = "[[mcp.servers]]\nid = \"hostile\"\n" + section + "[mcp.servers.tools.poke]\nrisk = \"low\"\n"
	return nil
}

// besieged runs ten other sessions during the attack, and checks the worker's bounds. It stops an attack that takes the
// worker over enough memory.
func (r *harness) besieged(ctx context.Context, mostResident int64, attack func(context.Context) error) error {
	g := newGauge(r.first())
	defer g.close()
	attacking, end := context.WithCancel(ctx)
	defer end()
	var broken atomic.Bool
	go func() {
		select {
		case <-g.full:
			broken.Store(true)
			r.first().kill()
			end()
		case <-attacking.Done():
		}
	}()
	crowd := r.bystand(ctx)
	began := time.Now()
	err := attack(attacking)
	ended := time.Now()
	longest := crowd.leave(broken.Load())
	if broken.Load() {
		resident, files := g.peaks()
		_ = os.Remove(r.attackFile()) // not every attack has such a file
		return fmt.Errorf("the attack was broken off after %s: the worker took %d MB and %d descriptors",
			ended.Sub(began).Round(100*time.Millisecond), resident>>20, files)
	}
	if err := errors.Join(err, r.settle()); err != nil {
		return err
	}
	idle, err := g.idle(ctx)
	resident, files := g.peaks()
	share := g.share(began.Add(ended.Sub(began)/2), ended)
	r.figures = fmt.Sprintf("%d MB, %d descriptors, %.0f %% of a processor, idle after %.1f s, longest turn %.1f s",
		resident>>20, files, 100*share, idle.Seconds(), longest.Seconds())
	return errors.Join(err, atMost("MB of memory", resident>>20, mostResident>>20),
		atMost("descriptors", int64(files), boundFiles),
		atMost("% of a processor late in the attack", int64(100*share), int64(100*boundShare)),
		atMost("seconds for a turn of another session", int64(longest.Seconds()), int64(boundAnswer.Seconds())))
}

func atMost(what string, n, most int64) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("the worker took %d %s: at most %d", n, what, most)
}

// reportWithin bounds how long a worker takes to report on its servers, on a machine with other work to do.
const reportWithin = 30 * time.Second

// dropped waits until the worker reports that it has dropped a connection with the hostile server, and why.
func (r *harness) dropped(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	return await(limited, "a connection that the worker has dropped", func() bool {
		workers, _ := r.journal.Workers(limited) // an error is not a report: it is read again
		for _, w := range workers {
			for _, s := range w.Servers {
				if s.Server == "hostile" && s.Drops > 0 && s.Excess != nil {
					r.figures += fmt.Sprintf(", %d connections dropped, the last for %s", s.Drops, s.Excess.Bound)
					return true
				}
			}
		}
		return false
	})
}

// crowd is the set of sessions that work while another one is attacked.
type crowd struct {
	harness *harness
	stop    context.CancelFunc
	done    sync.WaitGroup
	longest atomic.Int64
}

// bystand lets the sessions work until leave: each runs one turn after the other, with ordinary calls.
func (r *harness) bystand(ctx context.Context) *crowd {
	working, stop := context.WithCancel(ctx)
	c := &crowd{harness: r, stop: stop}
	for n := range bystanders {
		session := fmt.Sprintf("%s-w%d", filepath.Base(r.dir), n)
		rng := seeded(r.seed, session)
		r.asking++
		c.done.Go(func() {
			var err error
			_ = pause(working, time.Duration(n)*bystanderPause/bystanders) // each has at least one turn
			for i := 1; err == nil && (i == 1 || pause(working, bystanderPause) == nil); i++ {
				t := r.plan(randomTurn(rng, session, i))
				began := time.Now()
				if err = r.user.send(ctx, *t, i%2 == 0); err != nil {
					err = fmt.Errorf("message %s: %w", t.id, err)
				}
				c.took(time.Since(began))
			}
			r.asked <- err
		})
	}
	return c
}

func (c *crowd) took(d time.Duration) {
	for {
		was := c.longest.Load()
		if int64(d) <= was || c.longest.CompareAndSwap(was, int64(d)) {
			return
		}
	}
}

// leave lets the sessions end their turns and returns how long the longest took. Without a worker they cannot end: they
// do so when another worker has taken its place, and settle waits for them.
func (c *crowd) leave(dead bool) time.Duration {
	c.stop()
	if !dead {
		c.done.Wait()
	}
	return time.Duration(c.longest.Load())
}
