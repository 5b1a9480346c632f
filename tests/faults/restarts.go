package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/tests/faults/check"
)

// restarting holds the flags of the liveness scenario.
type restarting struct {
	on          bool
	turns       int
	flight      int           // turns at once
	every, away time.Duration // time between two kills, and the longest time the server stays away after one
}

func (c *restarting) flags() {
	flag.BoolVar(&c.on, "restarts", false,
		"instead of points, turns whose tool server is killed again and again (-point stdio or http: only that transport)")
	flag.IntVar(&c.turns, "turns", 200, "turns of a -restarts run, of four calls each")
	flag.IntVar(&c.flight, "flight", 16, "turns of a -restarts run that are under way at once")
	flag.DurationVar(&c.every, "every", 10*time.Second, "`time` between two kills of the tool server")
	flag.DurationVar(&c.away, "away", 1500*time.Millisecond, "longest `time` the tool server stays away after a kill")
}

func (c restarting) sane() error {
	if c.on && (c.turns < 1 || c.flight < 1 || c.away < time.Millisecond || c.every <= 2*c.away) {
		return errors.New("-restarts needs at least one turn, one in flight, and -every above twice -away")
	}
	return nil
}

const (
	// restartCalls is the number of calls of a turn, one per step.
	restartCalls = 4
	// restartTake bounds how long a call works on each side of its effect, and restartShare its part of the time between
	// two kills: a call that takes as long as its server lives cannot succeed.
	restartTake, restartShare = 1500 * time.Millisecond, 6
	// restartTries is how often the model repeats a call that was not made, as a new call, before it continues without it.
	restartTries = 3
	// restartLimit bounds a run: a longer run has turns that do not end.
	restartLimit = 10 * time.Minute
	// mostGivenUp is the largest share of the calls that may be abandoned.
	mostGivenUp = 0.01
)

// restarts is a liveness run over one transport. Its faults come by the clock, not at observed events: the run measures
// the cost of a server that restarts, so it needs many turns at many stages at the moment of each kill.
type restarts struct {
	*rig
	restarting
	transport string
	kills     int
	absent    time.Duration
	took      time.Duration // of all turns together
	turned    []time.Duration
}

// restart runs the scenario over stdio and over HTTP, and reports whether both kept every promise.
func (o order) restart(ctx context.Context, ps programs, dir string) (bool, error) {
	good := true
	var said bytes.Buffer
	for _, transport := range []string{"stdio", "http"} {
		if !o.wanted(transport) {
			continue
		}
		ok, err := o.restartOver(ctx, ps, dir, transport, io.MultiWriter(os.Stdout, &said))
		if err != nil {
			return false, fmt.Errorf("restarts over %s: %w", transport, err)
		}
		good = good && ok
	}
	return good, o.figures("restarts", func(b *bytes.Buffer) {
		provenance(b, os.Args[1:])
		fmt.Fprintf(b, "\n```\n%s\n```\n", bytes.TrimSpace(said.Bytes()))
	})
}

func (o order) restartOver(ctx context.Context, ps programs, dir, transport string, out io.Writer) (bool, error) {
	fmt.Fprintf(out, "restarts over %s: %d turns, %d at once, a kill every %s, away up to %s, seed %d\n",
		transport, o.restarts.turns, o.restarts.flight, o.restarts.every, o.restarts.away, o.seed)
	name := "restarts-" + transport
	own, err := newServer(ctx, ps.temporal, filepath.Join(dir, name+"-server"))
	if err != nil {
		return false, err
	}
	defer own.close()
	r, err := newRig(ctx, ps, own, filepath.Join(dir, name), o.seed, seeded(o.seed, name))
	if err != nil {
		return false, err
	}
	defer r.close()
	s := &restarts{rig: r, restarting: o.restarts, transport: transport}
	ctx, cancel := context.WithTimeout(ctx, restartLimit)
	defer cancel()
	err = s.run(ctx)
	err = errors.Join(err, r.collect(context.WithoutCancel(ctx), check.Run{Point: name, Seed: o.seed}))
	l, rerr := check.Read(os.DirFS(inDir(r.dir, "ledgers")))
	if rerr != nil {
		return false, errors.Join(err, rerr)
	}
	good := s.report(out, tallyRestarts(l), check.Check(l)) && err == nil
	if good && !o.keep {
		return true, errors.Join(os.RemoveAll(r.dir), os.RemoveAll(own.dir))
	}
	fmt.Println("ledgers in " + r.dir)
	return good, err
}

// run starts two workers and the tool server, runs the turns while it kills the server, and leaves it running at the
// end.
func (s *restarts) run(ctx context.Context) error {
	if err := s.serve(ctx); err != nil {
		return err
	}
	if err := s.configure(); err != nil {
		return err
	}
	for range 2 {
		if _, err := s.work(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	living, end := context.WithCancel(ctx)
	defer end()
	struck := make(chan error, 1)
	go func() { struck <- s.strike(ctx, living) }()
	err := s.load(ctx)
	s.took = time.Since(began)
	end()
	err = errors.Join(err, <-struck)
	if err != nil {
		return err
	}
	return s.restored(ctx)
}

// serve configures the tool server: one with calls that are not repeatable and one with calls that are. Over stdio each
// is a child of each worker; over HTTP both are the same process.
func (s *restarts) serve(ctx context.Context) error {
	s.settings.tools = slices.Clone(local[:2])
	if s.transport == "stdio" {
		return nil
	}
	for i := range s.settings.tools {
		s.settings.tools[i].http = true
	}
	return s.serveDirectly(ctx)
}

// strike kills the tool server at every tick until living ends, and starts it again after a seeded time.
func (s *restarts) strike(ctx, living context.Context) error {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-living.Done():
			return nil
		case <-ticker.C:
		}
		away := time.Duration(s.rng.Int64N(int64(s.away)))
		if err := s.withdraw(s.settings.tools...); err != nil {
			return err
		}
		if err := errors.Join(pause(ctx, away), s.readmit(ctx, s.settings.tools...)); err != nil {
			return err
		}
		s.kills, s.absent = s.kills+1, s.absent+away
	}
}

// load runs all turns, each in its own session, and returns when the last one has ended.
func (s *restarts) load(ctx context.Context) error {
	rng := seeded(s.seed, "restarts")
	take := min(restartTake, s.every/restartShare)
	slots := make(chan struct{}, s.flight)
	errs := make([]error, s.turns)
	s.turned = make([]time.Duration, s.turns)
	var all sync.WaitGroup
	for i := range s.turns {
		t, byUpdate := s.plan(restartTurn(rng, fmt.Sprintf("%s-t%03d", filepath.Base(s.dir), i), take)), rng.IntN(2) == 0
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			if err := s.user.send(ctx, *t, byUpdate); err != nil {
				errs[i] = fmt.Errorf("message %s: %w", t.id, err)
			}
			s.turned[i] = time.Since(began)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// restartTurn makes a turn of one call per step, some repeatable and some not.
func restartTurn(rng *rand.Rand, session string, take time.Duration) turnPlan {
	t := newTurn(rng, session, 1)
	t.patient = true
	for range restartCalls {
		t.add(1, func(int) string { return []string{once, again}[rng.IntN(2)] })
		t.steps[len(t.steps)-1][0].take = rng.IntN(int(take.Milliseconds()))
	}
	return t
}

// patientCall returns the call of a careful agent, in a session that holds only this turn: it makes its calls one after
// the other, never repeats a call whose outcome is unknown, and makes a call that was not made up to restartTries
// times. It returns nothing when the calls are done, and when the tool is not offered.
func (t *turnPlan) patientCall(q fakellm.Request) []callPlan {
	step, tries := 0, 0
	for _, m := range q.Chat.Messages {
		switch {
		case m.Role != "tool":
		case strings.Contains(m.Content, "appended ") || strings.Contains(strings.ToLower(m.Content), "outcome unknown"),
			tries == restartTries-1:
			step, tries = step+1, 0
		default:
			tries++
		}
	}
	if step >= len(t.steps) {
		return nil
	}
	c := t.steps[step][0]
	if tries > 0 {
		c.key += fmt.Sprintf("-try%d", tries+1)
	}
	if !slices.Contains(q.Chat.ToolNames(), c.tool) {
		return nil
	}
	return []callPlan{c}
}
