package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/tests/fakellm"
)

// point is a fault at a place that can be observed.
type point struct {
	name, about string
	// interruptions is how often the fault may cut off an inference.
	interruptions int
	ownServer     bool // Temporal's server is part of the fault
	ownJournal    bool // the Postgres server is part of the fault
	onlyPostgres  bool
	long          bool // takes minutes: played only if it is named, or if several runs of each point are requested
	// shape changes the target turn so that it reaches the point.
	shape func(r *harness)
	// prepare starts what the point needs besides the harness.
	prepare func(r *harness, ctx context.Context) error
	// weak returns the flags of a first worker that fails at the point; nil starts the real worker.
	weak func(r *harness) []string
	// act asks the target, waits for the point, breaks and heals.
	act func(ctx context.Context, r *harness) error
	// then checks what became of the target, beyond what the checker knows; nil checks nothing more.
	then func(ctx context.Context, r *harness) error
}

// outcome is the result of a run.
type outcome struct {
	point      string
	seed       uint64
	took       time.Duration
	recovery   time.Duration // from the fault to the target's result
	err        error         // the schedule itself failed, or its point was not reached
	figures    string        // measured by the point itself
	violations []check.Violation
	dir        string
}

func (o outcome) failed() bool { return o.err != nil || len(o.violations) > 0 }

// runLimit bounds a run as a whole, without an outage of the flag -outage.
const runLimit = 4 * time.Minute

// play runs one schedule and judges its ledgers. The folder stays if the run failed.
func play(ctx context.Context, ps programs, shared *server, p point, seed uint64, dir string, keep bool) outcome {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, runLimit+3*outageTime)
	defer cancel()
	o := outcome{point: p.name, seed: seed, dir: dir}
	o.recovery, o.figures, o.err = schedule(ctx, ps, shared, p, seed, dir)
	if l, err := check.Read(os.DirFS(inDir(dir, "ledgers"))); err != nil {
		o.err = errors.Join(o.err, err)
	} else {
		o.violations = check.Check(l)
	}
	o.took = time.Since(began)
	if !o.failed() && !keep {
		os.RemoveAll(dir)
	}
	return o
}

// schedule carries out a run, up to and including the collection of its ledgers.
func schedule(ctx context.Context, ps programs, shared *server, p point, seed uint64,
	dir string) (recovery time.Duration, figures string, err error) {
	s := shared
	if p.ownServer {
		own, err := newServer(ctx, ps.temporal, dir+"-server")
		if err != nil {
			return 0, "", err
		}
		defer os.RemoveAll(dir + "-server")
		defer own.close()
		s = own
	}
	if p.ownJournal && ps.postgres != nil {
		if ps.postgres, err = newPostgresServer(ctx); err != nil {
			return 0, "", err
		}
		defer ps.postgres.Close()
	}
	rng := seeded(seed, p.name)
	r, err := newHarness(ctx, ps, s, dir, seed, rng)
	if err != nil {
		return 0, "", err
	}
	defer r.close()
	r.cast(p)
	recovery, err = r.perform(ctx, p)
	err = errors.Join(err, r.collect(ctx, check.Run{Point: p.name, Seed: seed, Interruptions: p.interruptions}))
	return recovery, r.figures, err
}

// cast plans the turns around the fault.
func (r *harness) cast(p point) {
	session := filepath.Base(r.dir)
	other := session + "-b"
	target := newTurn(r.rng, session, 2)
	r.target = &target
	companion := randomTurn(r.rng, other, 2)
	r.companion = &companion
	if p.shape != nil {
		p.shape(r)
	}
	r.target, r.companion = r.plan(*r.target), r.plan(*r.companion)
}

// planned returns what a seed makes of a point: the turns, the flags of the first worker, and the next random choice,
// which is the fault's own.
func planned(p point, seed uint64) string {
	r := &harness{dir: fmt.Sprintf("%s-%d", p.name, seed), rng: seeded(seed, p.name), gate: fakellm.NewGate(),
		plans: map[string]*turnPlan{}, database: sqliteFile{}}
	r.cast(p)
	var weak []string
	if p.weak != nil {
		weak = p.weak(r)
	}
	return fmt.Sprintf("  target %+v\n  companion %+v\n  worker %q\n  next %d", *r.target, *r.companion, weak,
		r.rng.IntN(1000))
}

// perform runs a turn before the fault, the fault, and turns after it, the last of which must be offered every tool.
func (r *harness) perform(ctx context.Context, p point) (time.Duration, error) {
	if p.prepare != nil {
		if err := p.prepare(r, ctx); err != nil {
			return 0, err
		}
	}
	if err := r.configure(); err != nil {
		return 0, err
	}
	var weak []string
	if p.weak != nil {
		weak = p.weak(r)
	}
	if _, err := r.work(ctx, weak...); err != nil {
		return 0, err
	}
	if err := r.quiet(ctx, 1); err != nil {
		return 0, fmt.Errorf("the turn before the fault: %w", err)
	}
	if err := p.act(ctx, r); err != nil {
		return 0, errors.Join(err, r.giveUp(ctx))
	}
	healed := time.Now()
	if err := r.settle(); err != nil {
		return 0, fmt.Errorf("after the fault: %w", err)
	}
	recovery := time.Since(healed)
	if p.then != nil {
		if err := p.then(ctx, r); err != nil {
			return 0, err
		}
	}
	if err := r.quiet(ctx, 3); err != nil {
		return 0, fmt.Errorf("the turn after the fault: %w", err)
	}
	if err := r.restored(ctx); err != nil {
		return 0, fmt.Errorf("the last turn: %w", err)
	}
	return recovery, nil
}

// giveUp ends everything that still waits after a schedule has failed.
func (r *harness) giveUp(ctx context.Context) error {
	r.gate.Release()
	r.thaw()
	r.attend()
	if r.rival != nil {
		r.rival.Release()
	}
	return errors.Join(r.release(), r.resume(), r.heal(ctx), r.settle())
}

// quiet runs one turn in each session without a fault.
func (r *harness) quiet(ctx context.Context, n int) error {
	for _, session := range []string{r.target.session, r.companion.session} {
		r.converse(ctx, r.plan(randomTurn(r.rng, session, n)), r.rng.IntN(2) == 0)
	}
	return r.settle()
}
