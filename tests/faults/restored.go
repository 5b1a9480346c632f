package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/fakellm"
)

// toolServer is an MCP server of the schedules with the tools that it offers to the model, all of low risk. more adds
// configuration lines for the tools, and own for the server.
type toolServer struct {
	id, more string
	tools    []string
	own      string
	http     bool // over HTTP at settings.remote; otherwise a child of the worker over stdio
}

// local are the servers that run as the workers' children.
var local = []toolServer{
	{"once", "", []string{"append", "echo", "environ", "slow", "stubborn", "crash", "babble", "longline", "flood",
		"confirm", "progress"}, "", false},
	{"again", "repeatable = true\n", []string{"append"}, "", false},
	{"quick", "repeatable = true\nlocal_activity = true\n", []string{"append"}, "", false},
}

// keeper is the server that keeps state.
var keeper = toolServer{"keeper", "", []string{"append", "remember"}, "session_affinity = \"turn\"\n", false}

// servers returns all configured servers.
func (s settings) servers() []toolServer {
	if s.tools != nil {
		return s.tools
	}
	all := slices.Clone(local)
	if s.stateful {
		all = append(all, keeper)
	}
	if s.remote != "" {
		all = append(all, toolServer{"remote", "", []string{"confirm", "append"}, "", true})
	}
	return all
}

// wire returns the name by which the model knows a server's tool.
func (s toolServer) wire(tool string) string { return "mcp_" + s.id + "_" + tool }

// restoredWithin bounds how long the tools of a server that came back are missing.
const restoredWithin = time.Minute

// restored runs turns, each in its own session, until the tools of every configured server are back: the model is
// offered all of them, and one call of each had its effect. No point removes a server permanently, and each server is
// started again within restoredWithin of its loss. Tools that are away for longer are lost. The model would not show
// that otherwise, because it calls no tool that it is not offered.
func (r *harness) restored(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, restoredWithin)
	defer cancel()
	servers := r.settings.servers()
	for n := 1; ; n++ {
		t := newTurn(r.rng, fmt.Sprintf("%s-last%d", filepath.Base(r.dir), n), 1)
		t.add(len(servers), func(i int) string { return servers[i].wire("append") })
		r.converse(ctx, r.plan(t), r.rng.IntN(2) == 0)
		if err := r.settle(); err != nil {
			return err
		}
		lost := lostTools(servers, t, r.model.Requests(), func(key string) bool { return r.count("effect", key) > 0 })
		if len(lost) == 0 {
			return nil
		}
		if pause(limit, 2*time.Second) != nil {
			return fmt.Errorf("%s after everything was mended %s", restoredWithin, strings.Join(lost, ", "))
		}
	}
}

// lostTools returns the tools that the requests of a turn did not offer, and the turn's calls that had no effect.
func lostTools(servers []toolServer, t turnPlan, requests []fakellm.Request, effect func(key string) bool) []string {
	var offered, lost []string
	for _, q := range requests {
		if q.Chat.Asked() == t.text {
			offered = q.Chat.ToolNames()
		}
	}
	for _, s := range servers {
		for _, tool := range s.tools {
			if !slices.Contains(offered, s.wire(tool)) {
				lost = append(lost, s.wire(tool)+notOffered)
			}
		}
	}
	for _, c := range t.steps[0] {
		if slices.Contains(offered, c.tool) && !effect(c.key) {
			lost = append(lost, c.tool+" is offered and has no effect")
		}
	}
	return lost
}

// notOffered is the error for a tool that the model no longer has.
const notOffered = " is not offered to the model"
