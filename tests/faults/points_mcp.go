package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/everturn/everturn/tests/loopback"
)

// strikes makes a point at which an MCP server is hit in the middle of a call.
func strikes(name, about, side, event string, signal syscall.Signal) point {
	return point{
		name: name, about: about,
		shape: func(r *harness) {
			r.settings.toolTimeout = 3 * time.Second
			block(once, side)(r)
		},
		act: func(ctx context.Context, r *harness) error {
			if err := r.askToEvent(ctx, event); err != nil {
				return err
			}
			pid, err := r.mcpServer("once")
			if err != nil {
				return err
			}
			if err := syscall.Kill(pid, signal); err != nil {
				return fmt.Errorf("signalling the MCP server: %w", err)
			}
			if err := r.release(); err != nil {
				return err
			}
			return reach(ctx, "the end of the server", func() bool { return !alive(pid) })
		},
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// calls makes a point with a tool that misbehaves by itself.
func calls(name, about, tool string) point {
	return point{
		name: name, about: about,
		shape: func(r *harness) {
			r.settings.toolTimeout = 3 * time.Second
			busy(r)
			r.target.add(1+r.rng.IntN(2), func(i int) string { return []string{tool, again}[i] })
		},
		act: func(ctx context.Context, r *harness) error {
			if err := r.ask(ctx); err != nil {
				return err
			}
			step := len(r.target.steps) - 1
			if err := r.noted(ctx, "begun", r.target.steps[step][0].key); err != nil {
				return err
			}
			return reach(ctx, "the step after it", func() bool { return len(r.requests(step+1)) > 0 })
		},
	}
}

// moody makes a point at which an MCP server is killed in the middle of a call and misbehaves when it is started again.
// The calls of the next step meet it in that state; then it recovers.
func moody(name, about, mode string, back func(context.Context, *harness) error) point {
	p := strikes(name, about, "after", "effect", syscall.SIGKILL)
	shape, act := p.shape, p.act
	p.shape = func(r *harness) {
		shape(r)
		r.settings.connect = "3s"
		r.target.add(1+r.rng.IntN(2), func(i int) string { return []string{once, again}[i] })
	}
	p.act = func(ctx context.Context, r *harness) error {
		if err := os.WriteFile(r.modeFile("once"), []byte(mode), 0o600); err != nil {
			return err
		}
		if err := act(ctx, r); err != nil {
			return err
		}
		if err := r.noted(ctx, "mode", mode); err != nil {
			return err
		}
		if err := reach(ctx, "the target's answer",
			func() bool { return len(r.requests(len(r.target.steps))) > 0 }); err != nil {
			return err
		}
		return back(ctx, r)
	}
	return p
}

// comeBack lets the server behave when it is started the next time. The last turn checks that its tools are back.
func comeBack(_ context.Context, r *harness) error { return os.Remove(r.modeFile("once")) }

// comeBackUnheard lets the server recover while the journal is locked, until the worker has failed to publish its
// tools.
func comeBackUnheard(ctx context.Context, r *harness) error {
	if err := r.settle(); err != nil {
		return err
	}
	return r.lockJournal(ctx, 0, func() error {
		return errors.Join(comeBack(ctx, r), reach(ctx, "a catalogue that could not be published", func() bool {
			return r.first().logged("publishing the catalogue")
		}))
	})
}

// remote makes a point with an MCP server over HTTP and the link to it.
func remote(name, about string, s spell) point {
	p := point{
		name: name, about: about, interruptions: 0,
		shape: func(r *harness) {
			r.settings.toolTimeout = 3 * time.Second
			block("mcp_remote_append", "before")(r)
		},
		prepare: (*harness).serveRemote,
	}
	p.act = func(ctx context.Context, r *harness) error {
		if err := r.askToEvent(ctx, "begun"); err != nil {
			return err
		}
		if err := s(ctx, r, r.remote, 2*time.Second); err != nil {
			return err
		}
		return r.release()
	}
	return p
}

// serveRemote starts an MCP server behind a link that is not a child of a worker.
func (r *harness) serveRemote(ctx context.Context) error {
	at, err := loopback.Address() // another server takes its place later
	if err != nil {
		return err
	}
	address, err := r.startRemote(ctx, at)
	if err != nil {
		return err
	}
	if r.remote, err = newLink("remote", address.Host); err != nil {
		return err
	}
	r.onClose(r.remote.down)
	r.settings.remote, err = r.remote.in(address.String())
	return err
}

// startRemote starts an MCP server over HTTP, in place of an earlier one if there was one.
func (r *harness) startRemote(ctx context.Context, at string) (*url.URL, error) {
	log := inDir(r.dir, "remote.log")
	p, err := spawn(log, r.programs.mcpserver, os.Environ(), "-http", at, "-times",
		fmt.Sprintf("-stateless=%t", r.settings.stateless),
		"-ledger", r.toolLedger(), "-release", inDir(r.dir, "release"))
	if err != nil {
		return nil, err
	}
	r.onClose(p.kill)
	r.remoteServer = p
	if err := reach(ctx, "the MCP server over HTTP", func() bool { return p.gone() || p.logged("/mcp\n") }); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	return url.Parse(strings.TrimSpace(string(b)))
}

// toolServers returns the ways in which MCP servers are known to fail.
func toolServers() []point {
	return []point{
		strikes("mcp_killed_begun", "an MCP server is killed before the effect", "before", "begun", syscall.SIGKILL),
		strikes("mcp_killed_effect", "an MCP server is killed after the effect", "after", "effect", syscall.SIGKILL),
		strikes("mcp_frozen", "an MCP server stops answering after the effect", "after", "effect", syscall.SIGSTOP),
		calls("mcp_crash", "a tool takes its server down", "mcp_once_crash"),
		calls("mcp_hang", "a tool never answers", "mcp_once_slow"),
		calls("mcp_stubborn", "a tool never answers and ignores that it is cancelled", "mcp_once_stubborn"),
		calls("mcp_babble", "a tool prints on stdout what is not JSON", "mcp_once_babble"),
		calls("mcp_long_line", "a tool prints a line of 20 MB", "mcp_once_longline"),
		calls("mcp_flood", "a tool prints 64 MB on stderr", "mcp_once_flood"),
		moody("mcp_no_handshake", "a killed MCP server comes back and hangs in its handshake", "hang", comeBack),
		moody("mcp_no_list", "a killed MCP server comes back and never lists its tools", "hanglist", comeBack),
		moody("mcp_garbage", "a killed MCP server comes back and prints what is not JSON", "garbage", comeBack),
		moody("mcp_exits", "a killed MCP server comes back and exits at once", "exit", comeBack),
		moody("mcp_back_unheard", "a killed MCP server comes back while the journal is locked", "exit", comeBackUnheard),
		remote("mcp_remote_down", "worker–MCP is down in mid-call", down),
		remote("mcp_remote_hole", "worker–MCP swallows everything in mid-call", blackHole),
		remote("mcp_remote_reset", "worker–MCP is reset in mid-call", resets),
	}
}
