package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/everturn/everturn/tests/check"
	"github.com/everturn/everturn/tests/fakellm"
)

// soak runs many sessions for a long time, with one fault after the other: a harness whose first two workers survive it
// and are watched, and whose others are killed.
type soak struct {
	*harness
	order   order
	began   time.Time
	victims []*process
	struck  map[string]int // blows that have hit something
	missed  map[string]int // blows that have not
	seen    pulse
	watch   *watch
	load    load
	// before and after are the survivors' resources at rest.
	before, after rest
}

const (
	// soakVictims are the workers that are killed, beside the two that survive.
	soakVictims = 2
	// soakInterruptions is how often one inference may be cut off: faults come one after the other, so that more than a
	// few of them within one answer mean that something else sends it again.
	soakInterruptions = 6
	// soakWindow and soakKept are the configuration's bounds of a prompt, in messages.
	soakWindow, soakKept = 50, 30
	// soakPatience is how long the last turns may take once everything is restored.
	soakPatience = 5 * time.Minute
)

// endure runs a soak, judges it and reports whether it was good. It keeps the files of a bad soak.
func (o order) endure(ctx context.Context, ps programs, dir string) (bool, error) {
	fmt.Printf("soak: %d sessions for %s, seed %d\n", o.sessions, o.soak, o.seed)
	own, err := newServer(ctx, ps.temporal, filepath.Join(dir, "server"))
	if err != nil {
		return false, err
	}
	defer own.close()
	s, err := newSoak(ctx, ps, own, filepath.Join(dir, "soak"), o)
	if err != nil {
		return false, err
	}
	defer s.close()
	err = s.run(ctx)
	if err != nil {
		err = fmt.Errorf("the soak: %w", err)
	}
	run := check.Run{Point: "soak", Seed: o.seed, Interruptions: soakInterruptions, Window: soakWindow, Kept: soakKept}
	err = errors.Join(err, s.collect(context.WithoutCancel(ctx), run))
	l, rerr := check.Read(os.DirFS(inDir(s.dir, "ledgers")))
	if rerr != nil {
		return false, errors.Join(err, rerr)
	}
	var output bytes.Buffer
	good := s.report(io.MultiWriter(os.Stdout, &output), l, check.Check(l)) && err == nil
	err = errors.Join(err, o.figures("soak", func(b *bytes.Buffer) {
		provenance(b, os.Args[1:])
		fmt.Fprintf(b, "\n```\n%s\n```\n", bytes.TrimSpace(output.Bytes()))
	}))
	if good && !o.keep {
		return true, errors.Join(os.RemoveAll(s.dir), os.RemoveAll(own.dir))
	}
	fmt.Println("ledgers in " + s.dir)
	return good, err
}

func newSoak(ctx context.Context, ps programs, own *server, dir string, o order) (*soak, error) {
	r, err := newHarness(ctx, ps, own, dir, o.seed, seeded(o.seed, "soak"))
	if err != nil {
		return nil, err
	}
	s := &soak{harness: r, order: o, struck: map[string]int{}, missed: map[string]int{}}
	s.seen.ledger = r.toolLedger()
	s.load.soak = s
	r.settings.toolTimeout = 5 * time.Second
	r.adapt = func(_ fakellm.Request, _ *turnPlan, reply fakellm.Reply) fakellm.Reply {
		s.seen.asked.Add(1)
		return reply
	}
	s.load.listen()
	if err := r.configure(); err != nil {
		r.close()
		return nil, err
	}
	return s, nil
}

// seeded returns a source of choices for the seed and a name.
func seeded(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// run starts the workers, runs the sessions for the requested time while it strikes, and waits until every turn has
// ended and every tool is back.
func (s *soak) run(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	var err error
	if s.before, err = s.watch.look(ctx); err != nil {
		return err
	}
	s.began = time.Now()
	living, end := context.WithTimeout(ctx, s.order.soak)
	defer end()
	var beside sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	defer stop()
	beside.Go(func() { s.watch.keep(watching) })
	drained := make(chan error, 1)
	beside.Go(func() { drained <- s.drain(watching) })
	s.load.begin(ctx, living)
	struck := s.strikes(ctx, living)
	if struck != nil {
		end()
	}
	err = s.load.wait(soakPatience)
	stop()
	beside.Wait()
	if err == nil && struck == nil {
		err = s.rest(ctx)
	}
	return errors.Join(struck, err, <-drained, s.watch.err)
}

// rest waits until every tool is back, and measures the survivors' resources while nothing is under way.
func (s *soak) rest(ctx context.Context) (err error) {
	if err := s.restored(ctx); err != nil {
		return err
	}
	s.after, err = s.watch.look(ctx)
	return err
}

// start starts the workers: the survivors, which are the real command and one that reports its own figures, and the
// victims.
func (s *soak) start(ctx context.Context) error {
	survivor, err := s.work(ctx)
	if err != nil {
		return err
	}
	vitals := inDir(s.dir, "vitals")
	observed, err := s.work(ctx, "-kill", "", "-vitals", vitals)
	if err != nil {
		return err
	}
	s.watch = newWatch(s, survivor, observed, vitals)
	for range soakVictims {
		p, err := s.work(ctx)
		if err != nil {
			return err
		}
		s.victims = append(s.victims, p)
	}
	return nil
}

// drainEvery is how often the provider's ledger goes to its file, so that this process does not grow with it.
const drainEvery = 2 * time.Second

func (s *soak) drain(ctx context.Context) error {
	l, err := openLedger(inDir(s.dir, "ledgers", "provider.jsonl"))
	if err != nil {
		return err
	}
	for pause(ctx, drainEvery) == nil {
		s.noteRequests(l, s.model.Drain())
	}
	return l.f.Close()
}
