package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/everturn/everturn/tests/script"
)

// toolServer is an MCP server of the schedules and the tools that it has for the model, all of low risk. more says what
// they are besides, and own what the server is, in the configuration.
type toolServer struct {
	id, more string
	tools    []string
	own      string
	http     bool // over HTTP at settings.remote; otherwise a child of the worker over stdio
}

// local are the servers that are the workers' children.
var local = []toolServer{
	{"once", "", []string{"append", "echo", "environ", "slow", "stubborn", "crash", "babble", "longline", "flood", "confirm", "progress"}, "", false},
	{"again", "repeatable = true\n", []string{"append"}, "", false},
	{"quick", "repeatable = true\nquick = true\n", []string{"append"}, "", false},
}

// keeper is the server that remembers.
var keeper = toolServer{"keeper", "", []string{"append", "remember"}, "stateful = \"turn\"\n", false}

// servers are all that are configured.
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

// wire is the name by which the model knows a server's tool.
func (s toolServer) wire(tool string) string { return "mcp_" + s.id + "_" + tool }

// restored has turns, each in a session of its own, until the tools of every configured server are back: all of them
// offered to the model, and one of each with its effect. There is no point that takes a server away for good, and none is
// started again later than a minute after it was lost; tools that are away for longer are lost, which a model that asks
// for none of what it is not offered would never show.
func (r *rig) restored(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, within)
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
			return fmt.Errorf("%s after everything was mended %s", within, strings.Join(lost, ", "))
		}
	}
}

// lostTools says which tools the requests of a turn did not offer, and which of its calls had no effect.
func lostTools(servers []toolServer, t turnPlan, requests []script.Request, effect func(key string) bool) []string {
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

// notOffered is what is said of a tool that the model no longer has.
const notOffered = " is not offered to the model"
