package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/everturn/everturn/tests/faults/leakcheck"
)

// pulse is what can be seen of a soak's turns from outside.
type pulse struct {
	asked  atomic.Int64 // requests to the provider
	ledger string       // the tool's ledger
	read   int64        // bytes of the ledger already read
	counts map[string]int64
}

// tool returns how often the tool's ledger has an event by now. It reads only what is new.
func (p *pulse) tool(event string) int64 {
	if p.counts == nil {
		p.counts = map[string]int64{}
	}
	f, err := os.Open(p.ledger)
	if err != nil {
		return 0 // no tool has run yet
	}
	defer f.Close()
	for buffer := make([]byte, 64<<10); ; {
		n, err := f.ReadAt(buffer, p.read)
		whole := bytes.LastIndexByte(buffer[:n], '\n') + 1
		for _, e := range []string{"begun", "effect"} {
			p.counts[e] += int64(bytes.Count(buffer[:whole], []byte(`"event":"`+e+`"`)))
		}
		if p.read += int64(whole); err != nil || whole == 0 {
			return p.counts[event]
		}
	}
}

// moments are the events at which a soak strikes.
var moments = []struct {
	name  string
	count func(s *soak) int64
}{
	{"a call that has begun", func(s *soak) int64 { return s.seen.tool("begun") }},
	{"an effect", func(s *soak) int64 { return s.seen.tool("effect") }},
	{"a question to the provider", func(s *soak) int64 { return s.seen.asked.Load() }},
	{"an acknowledgement", func(s *soak) int64 { return s.user.acks.Load() }},
}

// blow is a fault of a soak and how often it is in the deck from which the faults are dealt. It returns errMissed if it
// has hit nothing.
type blow struct {
	name   string
	cards  int
	strike func(s *soak, ctx context.Context) error
}

var errMissed = errors.New("there was nothing to hit")

var blows = []blow{
	{"worker killed", 5, (*soak).killWorker},
	{"worker frozen past its heartbeats", 1, (*soak).freezeWorker},
	{"MCP server killed", 2, (*soak).killTool},
	{"Temporal killed", 1, (*soak).killServer},
	{"worker–server down", 1, func(s *soak,
		ctx context.Context) error {
		return s.sever(ctx, down, s.temporal, s.outage())
	}},
	{"worker–server swallows everything", 1,
		func(s *soak, ctx context.Context) error { return s.sever(ctx, blackHole, s.temporal, s.outage()) }},
	{"client–server down", 1, func(s *soak,
		ctx context.Context) error {
		return s.sever(ctx, down, s.users, s.outage())
	}},
	{"worker–provider cut", 1, func(s *soak, ctx context.Context) error { return s.sever(ctx, down, s.provider, 0) }},
}

// calm returns the pause after a fault, before the event at which the next one strikes: from 4 to 20 seconds, and less
// in a short soak.
func (s *soak) calm() time.Duration {
	least, most := min(4*time.Second, s.order.soak/30), min(20*time.Second, s.order.soak/10)
	return least + time.Duration(s.rng.Int64N(int64(most-least)))
}

// strikes deals one fault after the other, each at an event that it awaits after a seeded time, until living ends.
func (s *soak) strikes(ctx, living context.Context) error {
	var deck []blow
	for {
		if len(deck) == 0 {
			deck = s.shuffled()
		}
		calm, moment := s.calm(), moments[s.rng.IntN(len(moments))]
		if pause(living, calm) != nil {
			return context.Cause(ctx)
		}
		before := moment.count(s)
		if err := await(living, moment.name, func() bool { return moment.count(s) > before }); err != nil {
			return context.Cause(ctx)
		}
		if err := s.deal(ctx, deck[0]); err != nil {
			return fmt.Errorf("%s at %s: %w", deck[0].name, moment.name, err)
		}
		deck = deck[1:]
	}
}

// deal strikes, and counts whether the fault has hit anything.
func (s *soak) deal(ctx context.Context, b blow) error {
	err := b.strike(s, ctx)
	switch {
	case errors.Is(err, errMissed):
		s.missed[b.name]++
		return nil
	case err == nil:
		s.struck[b.name]++
	}
	return err
}

// spared returns the blows that have hit nothing in the whole soak.
func (s *soak) spared() (out []string) {
	for _, b := range blows {
		if s.struck[b.name] == 0 {
			out = append(out, b.name)
		}
	}
	return out
}

func (s *soak) shuffled() []blow {
	var deck []blow
	for _, b := range blows {
		deck = append(deck, slices.Repeat([]blow{b}, b.cards)...)
	}
	s.rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// victim returns one of the workers that are killed, and its index. Between two blows all of them run.
func (s *soak) victim() (int, *process, error) {
	i := s.rng.IntN(len(s.victims))
	if p := s.victims[i]; p.gone() {
		return i, p, fmt.Errorf("worker %d has ended by itself: %s", p.pid(), tail(p.log))
	}
	return i, s.victims[i], nil
}

// killWorker kills one of the victims and starts another one.
func (s *soak) killWorker(ctx context.Context) error {
	i, victim, err := s.victim()
	if err != nil {
		return err
	}
	victim.kill()
	err = s.heal(ctx)
	s.victims[i] = s.workers[len(s.workers)-1]
	return err
}

// killServer kills Temporal and starts it again.
func (s *soak) killServer(ctx context.Context) error {
	if p := s.server.process; p.gone() {
		return fmt.Errorf("the server has ended by itself: %s", tail(p.log))
	}
	return s.crash(ctx)
}

// sever breaks a link for a while.
func (s *soak) sever(ctx context.Context, how spell, l *link, d time.Duration) error {
	n, err := l.connections()
	if err == nil && n == 0 {
		err = errMissed
	}
	if err != nil {
		return err
	}
	return how(ctx, s.harness, l, d)
}

// frozenFor is longer than a silent activity's heartbeat timeout.
const frozenFor = 7 * time.Second

// freezeWorker stops one of the victims, lets the others do its work, and brings it back.
func (s *soak) freezeWorker(ctx context.Context) error {
	_, victim, err := s.victim()
	if err != nil {
		return err
	}
	if err := s.database.freeze(ctx, victim); err != nil {
		return err
	}
	err = pause(ctx, frozenFor)
	victim.signal(syscall.SIGCONT)
	return err
}

// killTool kills one of the MCP servers of one of the workers.
func (s *soak) killTool(context.Context) error {
	all := slices.Concat(s.workers[:2], s.victims)
	worker := all[s.rng.IntN(len(all))]
	servers := slices.DeleteFunc(leakcheck.Children(worker.pid()), func(pid int) bool {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !strings.HasPrefix(string(command), s.programs.mcpserver)
	})
	if len(servers) == 0 {
		return errMissed // they were just killed and are not back yet
	}
	err := syscall.Kill(servers[s.rng.IntN(len(servers))], syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return errMissed
	}
	return err
}
