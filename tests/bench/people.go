package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/internal/temporalconn"
	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/journal/follow"
	"github.com/everturn/everturn/journal/postgres"
	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/tests/bench/proc"
	"github.com/everturn/everturn/tests/bench/report"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// withPeople measures the scenarios with waiting users, prints their tables and, if requested, puts them into the
// documentation. A missed aim is printed but is not an error, because the times depend on the machine.
func (p *program) withPeople(ctx context.Context, r *harness) error {
	size := crowdFull
	size.waiting = p.waiting
	if p.smoke {
		size = crowdSmoke
	}
	out, err := p.peopleBefore()
	if err != nil {
		return err
	}
	out.Machine = report.ThisMachine()
	for _, sc := range []struct {
		name  string
		fleet bool // instead of others, with -fleet
		run   func(context.Context, *crowd) error
	}{
		{"terminals", false, func(ctx context.Context, c *crowd) (err error) {
			out.Streams, err = c.terminals(ctx, size)
			return err
		}},
		{"streams", true, func(ctx context.Context, c *crowd) (err error) {
			out.Streams, err = c.streams(ctx)
			return err
		}},
		{"stops", false, func(ctx context.Context, c *crowd) (err error) {
			out.Stops, err = c.stops(ctx, size)
			return err
		}},
		{"waiting", p.fleet, func(ctx context.Context, c *crowd) (err error) {
			out.Waiting, err = c.waitingTurns(ctx, size)
			return err
		}},
	} {
		if !strings.Contains(sc.name, p.only) || sc.fleet != p.fleet {
			continue
		}
		fmt.Fprintf(r.progress, "%s ", sc.name)
		began := time.Now()
		if err := r.withCrowd(ctx, sc.name, sc.run); err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		fmt.Fprintf(r.progress, " %s\n", time.Since(began).Round(time.Second))
	}
	if err := report.PeopleTable(p.stdout, out); err != nil || p.smoke || p.fleet {
		return err
	}
	if err := writeJSON(p.peopleFile(), out); err != nil || !p.write {
		return err
	}
	page := filepath.Join(p.docs, "benchmarks.md")
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	text, err := report.InsertPeople(old, out)
	if err != nil {
		return fmt.Errorf("renewing %s: %w", page, err)
	}
	return write(page, text)
}

// peopleFile returns the path of the latest figures of each scenario with waiting users. The file is beside the one of
// an ordinary run.
func (p *program) peopleFile() string { return filepath.Join(p.out, "people.json") }

// peopleBefore returns the figures of the scenarios that this run does not measure.
func (p *program) peopleBefore() (out report.People, err error) {
	if p.smoke || p.only == "" || p.fleet {
		return out, nil
	}
	b, err := os.ReadFile(p.peopleFile())
	if os.IsNotExist(err) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(b, &out)
}

// crowdSize gives the number of turns, bursts and samples in a run.
type crowdSize struct {
	waiting, woken, burst int
	turns, crowded        int // streaming turns: one at a time, and atOnce in parallel
	bursts                int
	stops                 int // per kind
}

// atOnce is the number of parallel turns in the scenario with many streams.
const atOnce = 16

var (
	crowdFull  = crowdSize{waiting: 10_000, woken: 400, burst: 200, turns: 40, crowded: 3 * atOnce, bursts: 6, stops: 20}
	crowdSmoke = crowdSize{waiting: 200, woken: 20, burst: 20, turns: 2, crowded: atOnce, bursts: 2, stops: 2}
)

// crowd is one real worker with its own journal, in Postgres on a fleet and in SQLite otherwise, and a provider that
// streams timestamps.
type crowd struct {
	harness  *harness
	name     string
	config   string
	worker   *proc.Process
	sessions *client.Client
	journal  *journal.DB
	next     int
}

// withCrowd starts a worker and a provider, calls run, and stops them when run returns.
func (r *harness) withCrowd(ctx context.Context, name string, run func(context.Context, *crowd) error) (err error) {
	clock, err := proc.Start(proc.Command{Name: name + "-clock", Argv: []string{r.self, "clock"}, Dir: r.dir,
		Env: os.Environ()})
	if err != nil {
		return err
	}
	defer func() { err = join(err, clock.Stop()) }()
	url, err := clock.FirstLine(ctx)
	if err != nil {
		return err
	}
	c := &crowd{harness: r, name: "people-" + name}
	c.sessions = client.New(r.client, client.Options{TaskQueue: c.name, Agent: "default"})
	if err := c.configure(ctx, url); err != nil {
		return err
	}
	if c.worker, err = proc.Start(proc.Command{Name: c.name, Argv: []string{r.folder("worker"), "--config", c.config},
		Dir: r.dir, Env: os.Environ()}); err != nil {
		return err
	}
	defer func() { err = join(err, c.worker.Stop()) }()
	if err := c.ready(ctx); err != nil {
		return fmt.Errorf("%w; its log says: %s", err, c.worker.Tail())
	}
	defer func() { err = join(err, c.journal.Close()) }()
	return run(ctx, c)
}

// configure writes the worker's agent.toml. All other settings keep their defaults.
func (c *crowd) configure(ctx context.Context, provider string) error {
	r := c.harness
	j, err := r.journalConfig(ctx, c.name, arm{postgres: r.fleet != nil})
	if err != nil {
		return err
	}
	c.config = r.folder(c.name + ".toml")
	text := fmt.Sprintf("[runtime]\nworkspace = %q\ntool_timeout = \"1m\"\n[llm]\nprovider = "+
		"\"openai\"\nbase_url = %q\nmodel = \"clock\"\n"+
		"idle_timeout = \"1m\"\n[policy]\ntaint = \"off\"\nask = [\"local/read_file\"]\n"+
		"[journal]\n%s[temporal]\naddress = %q\ntask_queue = %q\n"+
		"[[mcp.servers]]\nid = \"bench\"\ncommand = %q\nrequired = true\nallow = "+
		"[\"slow\"]\n[mcp.servers.tools.slow]\nrisk = \"low\"\n",
		r.folder("workspace"), provider, j, r.address, c.name, r.folder("mcpserver"))
	return os.WriteFile(c.config, []byte(text), 0o600)
}

// ready waits until the worker polls, and runs a few turns to warm it up.
func (c *crowd) ready(ctx context.Context) error {
	for {
		found, err := temporalconn.Pollers(ctx, c.harness.client, c.name)
		if len(found) > 0 {
			break
		}
		select {
		case <-c.worker.Ended():
			return errors.New("the worker has ended")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	for range warmUp {
		a, err := c.send(ctx, scene{Kind: sceneFinal})
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, within)
		err = c.harness.client.GetWorkflow(limited, a.Session, a.ID).Get(limited, nil)
		cancel()
		if err != nil {
			return fmt.Errorf("the first turns: %w", err)
		}
	}
	var err error
	if c.harness.fleet != nil {
		c.journal, err = postgres.Open(ctx, c.harness.postgresJournal(c.name), postgres.Options{})
		return err
	}
	c.journal, err = sqlite.Open(ctx, c.harness.journal(c.name), sqlite.Options{Synchronous: "normal"})
	return err
}

// send starts a turn in a new session.
func (c *crowd) send(ctx context.Context, s scene) (client.Turn, error) {
	return c.sendTo(ctx, c.session(), s)
}

func (c *crowd) session() string {
	c.next++
	return fmt.Sprintf("%s-%d", c.name, c.next)
}

// sendTo starts a turn in the session. While a busy server does not answer, it sends the message again.
func (c *crowd) sendTo(ctx context.Context, session string, s scene) (client.Turn, error) {
	in := client.SendInput{Session: session, Message: workflows.Message{ID: session, Text: s.message()}, Alone: true}
	ctx, cancel := context.WithTimeout(ctx, within) // without a deadline, the client tries for 30 seconds
	defer cancel()
	return c.sessions.Send(ctx, in)
}

// until reads a turn's events up to one of these kinds and returns its index.
func (c *crowd) until(ctx context.Context, turnID string, after int64, kinds ...turn.EventKind) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for event, err := range follow.Turn(ctx, c.journal, turnID, after) {
		if err != nil {
			return 0, fmt.Errorf("waiting for %v of turn %s: %w", kinds, turnID, err)
		}
		for _, k := range kinds {
			if event.Kind == k {
				return event.Index, nil
			}
		}
	}
	return 0, fmt.Errorf("turn %s is over and had no %v", turnID, kinds)
}

// stops measures the time from a stop to the end of the turn, in every phase in which a turn may hang.
func (c *crowd) stops(ctx context.Context, size crowdSize) (out []report.Waited, err error) {
	for _, phase := range []struct {
		what  string
		scene sceneKind
		at    turn.EventKind
	}{
		{"the provider is silent", sceneThink, turn.EventTurnStarted},
		{"a stream is stalled", sceneHang, turn.EventTextDelta},
		{"a tool hangs", sceneTool, turn.EventToolCallStarted},
		{"an approval is waited for", sceneApproval, turn.EventApprovalRequested},
		{"an answer is waited for", sceneQuestion, turn.EventQuestionAsked},
	} {
		var took []time.Duration
		for range size.stops {
			one, err := c.stop(ctx, phase.scene, phase.at)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", phase.what, err)
			}
			took = append(took, one)
		}
		w := report.Wait(phase.what, took)
		w.AimMax = 2000
		out = append(out, w)
		fmt.Fprint(c.harness.progress, ".")
	}
	return out, nil
}

// settled is the pause between the event that announces a phase and the stop: the event may be a little ahead of the
// workflow.
const settled = 100 * time.Millisecond

func (c *crowd) stop(ctx context.Context, kind sceneKind, at turn.EventKind) (time.Duration, error) {
	a, err := c.send(ctx, scene{Kind: kind})
	if err != nil {
		return 0, err
	}
	index, err := c.until(ctx, a.ID, -1, at)
	if err != nil {
		return 0, err
	}
	time.Sleep(settled)
	began := time.Now()
	if err := c.sessions.Stop(ctx, a.Session); err != nil {
		return 0, err
	}
	_, err = c.until(ctx, a.ID, index, turn.EventTurnCompleted)
	return time.Since(began), err
}

// buildCLI builds the command line, which only these scenarios need.
func (r *harness) buildCLI(ctx context.Context) (string, error) {
	path := r.folder("everturn")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path,
		"github.com/everturn/everturn/starter").CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("building everturn: %w", err), errors.New(string(out)))
	}
	return path, nil
}
