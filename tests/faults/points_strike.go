package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/workflows/turn"
)

// moment is the stage of a call at which its server, or the worker that makes it, is killed.
type moment string

// The moments, each with the event that shows it.
const (
	momentBefore  moment = "before"  // claimed and not written: the worker is held after it claims the call
	momentWritten moment = "written" // written and not read: the bytes are in the pipe or the socket of a stopped server
	momentEffect  moment = "effect"  // in the tool's ledger, without an answer
	momentAfter   moment = "after"   // answered and not settled: the worker is held before it settles the call
)

// verdict is what may have become of a call: its outcome, and bounds on its effects.
type verdict struct {
	outcome     turn.Outcome
	least, most int // number of effects
}

// struck returns the points that kill a server or a worker in the middle of a call that is not repeatable, over both
// transports. A call that was written has an unknown outcome unless an answer says otherwise.
func struck() (out []point) {
	about := map[moment]string{momentBefore: "before the request is written",
		momentWritten: "when the request is written and not read",
		momentEffect:  "after the effect", momentAfter: "after the answer"}
	for _, transport := range []string{"stdio", "http"} {
		for _, at := range []moment{momentBefore, momentWritten, momentEffect, momentAfter} {
			out = append(out,
				strike{transport, at, false}.point("server_"+transport+"_"+string(at),
					"an MCP server over "+transport+" is killed "+about[at]),
				strike{transport, at, true}.point("worker_"+transport+"_"+string(at),
					"the worker is killed that calls a server over "+transport+" "+about[at]))
		}
	}
	return out
}

type strike struct {
	transport string
	at        moment
	worker    bool // is the victim
}

func (s strike) tool() string {
	if s.transport == "http" {
		return "mcp_remote_append"
	}
	return once
}

// expected returns the verdicts that a server's death allows. A worker that dies cannot report anything: the outcome of
// every call that it claimed is unknown.
func (s strike) expected() verdict {
	switch {
	case s.at == momentEffect, s.at == momentAfter && s.worker:
		return verdict{turn.OutcomeUnknown, 1, 1}
	case s.at == momentBefore && s.worker, s.at == momentWritten && s.transport == "stdio",
		s.at == momentWritten && !s.worker:
		return verdict{turn.OutcomeUnknown, 0, 0}
	case s.at == momentWritten: // the server survives and reads the call
		return verdict{turn.OutcomeUnknown, 0, 1}
	}
	return verdict{turn.OutcomeOK, 1, 1}
}

func (s strike) point(name, about string) point {
	p := point{name: name, about: about, interruptions: 1, shape: s.shape, act: s.act, then: s.verify}
	if s.transport == "http" {
		p.prepare = (*harness).serveDirectly
	}
	where := map[moment]string{momentBefore: "ClaimCall:after:2", momentWritten: "ClaimCall:after:2",
		momentAfter: "SettleCall:before:2"}
	if s.at != momentEffect {
		p.weak = func(*harness) []string { return []string{"-hold", where[s.at]} }
	}
	return p
}

// shape makes the call in question the second of the target, alone in its step.
func (s strike) shape(r *harness) {
	r.target.add(1, func(int) string { return []string{again, echo}[r.rng.IntN(2)] })
	r.target.add(1, func(int) string { return s.tool() })
	for range r.rng.IntN(2) {
		r.target.add(1+r.rng.IntN(2), func(int) string { return tools[r.rng.IntN(len(tools))] })
	}
	if s.at == momentEffect {
		r.target.steps[1][0].block = "after"
	}
}

func (s strike) act(ctx context.Context, r *harness) error {
	if err := r.askTarget(ctx); err != nil {
		return err
	}
	if err := s.reached(ctx, r); err != nil {
		return err
	}
	if err := s.kill(ctx, r); err != nil {
		return err
	}
	return errors.Join(r.resume(), r.release())
}

func (s strike) verify(ctx context.Context, r *harness) error {
	return r.became(ctx, r.blocked().key, s.expected())
}

// reached waits for the moment.
func (s strike) reached(ctx context.Context, r *harness) error {
	if s.at == momentEffect {
		return r.noted(ctx, "effect", r.blocked().key)
	}
	if err := r.heldAt(ctx); err != nil || s.at != momentWritten {
		return err
	}
	pid, err := s.server(r)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stopping the MCP server: %w", err)
	}
	unread := func() int { return unreadInPipe(pid) }
	if s.transport == "http" {
		_, port, _ := strings.Cut(r.settings.remote, "127.0.0.1:")
		port, _, _ = strings.Cut(port, "/")
		unread = func() int { return unreadAt(port) }
	}
	before := unread()
	if err := r.resume(); err != nil {
		return err
	}
	return reach(ctx, "a request that is written and not read", func() bool { return unread() > before })
}

func (s strike) server(r *harness) (int, error) {
	if s.transport == "http" {
		return r.remoteServer.pid(), nil
	}
	return r.mcpServer("once")
}

// kill kills the victim, and restores what does not recover by itself.
func (s strike) kill(ctx context.Context, r *harness) error {
	if s.worker {
		r.first().kill()
		if s.transport == "http" && s.at == momentWritten {
			r.remoteServer.signal(syscall.SIGCONT)
		}
		return r.heal(ctx)
	}
	pid, err := s.server(r)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err == nil {
		err = reach(ctx, "the end of the server", func() bool { return reapedAlready(pid) })
	}
	if err == nil && s.transport == "http" {
		_, err = r.startRemote(ctx, hostOf(r.settings.remote))
	}
	return err
}

// reapedAlready reports whether nothing is left of a process. A process whose first thread has ended may have other
// threads that still hold its pipes.
func reapedAlready(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return errors.Is(err, os.ErrNotExist)
}

func hostOf(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// serveDirectly starts an MCP server over HTTP without a link in between: a port without a listener refuses
// connections.
func (r *harness) serveDirectly(ctx context.Context) error {
	at, err := loopback.Address() // another server takes its place later
	if err != nil {
		return err
	}
	address, err := r.startRemote(ctx, at)
	if err == nil {
		r.settings.remote = address.String()
	}
	return err
}

// unreadInPipe returns how many bytes a process has not read yet from its standard input.
func unreadInPipe(pid int) int {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/0", pid), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// unreadAt returns how many bytes wait in the sockets that are connected to a port of this machine, by the kernel's
// count, and how many connections wait to be accepted.
func unreadAt(port string) int {
	var number int
	if _, err := fmt.Sscan(port, &number); err != nil {
		return 0
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0
	}
	total := 0
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) || f[3] != "01" {
			continue
		}
		var sent, waiting int
		if _, err := fmt.Sscanf(f[4], "%x:%x", &sent, &waiting); err == nil {
			total += waiting
		}
	}
	return total
}

// became checks what the journal and the tool's ledger say about one of the target's calls.
func (r *harness) became(ctx context.Context, key string, want verdict) error {
	calls, err := r.journal.Calls(ctx, r.turnID(ctx))
	if err != nil {
		return err
	}
	for _, c := range calls {
		if !strings.Contains(c.Call.Arguments, `"`+key+`"`) {
			continue
		}
		n := r.count("effect", key)
		if c.Outcome != want.outcome || n < want.least || n > want.most {
			return fmt.Errorf("the call %s came to %s (%q) with %d effects, and should have come to %s with %d to %d",
				key, c.Outcome, c.Text, n, want.outcome, want.least, want.most)
		}
		return nil
	}
	return fmt.Errorf("the ledger has no call %s", key)
}
