package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/script"
)

// lane is how a turn's tool calls run.
type lane string

const (
	laneMCP      lane = "mcp"       // an MCP server over stdio, as regular activities
	laneMCPQuick lane = "mcp quick" // the same server, declared quick and repeatable: local activities
	laneLocal    lane = "local"     // the file tool of the worker, a quick one: local activities
)

// wire is the tool's name as models know it.
func (l lane) wire() string {
	return map[lane]string{laneMCP: "mcp_bench_big", laneMCPQuick: "mcp_quick_big", laneLocal: "local_read_file"}[l]
}

// spec is what a turn does. It travels to the scripted provider in the user's message.
type spec struct {
	Hops  int    `json:"hops"`
	Calls int    `json:"calls"` // a hop, in parallel
	Tool  string `json:"tool"`
	// Bytes is the size of a tool's result.
	Bytes int  `json:"bytes"`
	Bad   bool `json:"bad,omitempty"` // the first answer is no valid action
	// Slow streams the answer word by word, 10 ms apart, after 100 ms of thought.
	Slow bool `json:"slow,omitempty"`
}

const (
	question = "Please look into this and tell me what you find: "
	answer   = "This is what I found in the pages that I was asked to read: each of them holds the line that it should hold, " +
		"the numbers add up, and nothing is missing. "
	pages = 16
)

func (s spec) message() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a struct of numbers and strings
	}
	return question + string(b)
}

// provide is the provider's script: it does what the user's message says.
func provide(r script.Request) script.Reply {
	_, text, _ := strings.Cut(r.Chat.Asked(), question)
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return script.Status(400, "bad_spec", "the user's message holds no specification: "+err.Error())
	}
	step := r.Step
	if s.Bad {
		if step == 0 {
			return script.Call("no_such_tool", `{}`).Usage(900, 20, 0)
		}
		step--
	}
	if step >= s.Hops {
		final := script.Text(strings.Repeat(answer, 2)).Usage(1000+300*step, 60, 0)
		if s.Slow {
			final = final.FirstDelay(slowFirst).Delay(slowDelay)
		}
		return final
	}
	calls := make([]script.ToolCall, s.Calls)
	for i := range calls {
		calls[i] = script.ToolCall{Name: s.Tool, Arguments: s.arguments(step, i)}
	}
	return script.Calls(calls...).Usage(1000+300*step, 30, 0)
}

func (s spec) arguments(step, i int) string {
	if s.Tool == laneLocal.wire() {
		return fmt.Sprintf(`{"path":"page-%d.txt"}`, (step+i)%pages)
	}
	return fmt.Sprintf(`{"bytes":%d}`, s.Bytes-i)
}

// kind is whose turn it is.
type kind string

const (
	everturn kind = "everturn"
	cookbk   kind = "cookbook"
	floorish kind = "floor"
)

// arm is one side of a comparison.
type arm struct {
	kind kind
	lane lane
	// full has the journal wait for the disk at each commit, which its default is. Without it the journal is as
	// durable as the development server's own database, which is what the baselines stand on.
	full bool
}

func (a arm) String() string {
	name := string(a.kind) + " " + string(a.lane)
	if a.full {
		name += " fsync"
	}
	return name
}

// synchronous is the journal's setting of that name.
func (a arm) synchronous() config.Synchronous {
	if a.full {
		return config.SynchronousFull
	}
	return config.SynchronousNormal
}

// scenario is one comparison.
type scenario struct {
	name     string
	spec     spec // its Tool is the arm's
	arms     []arm
	turns    int // each arm, warm-up left out
	block    int // turns of an arm before the next arm's
	inFlight int
	smoke    bool // part of a smoke run, with as few turns as will do
}

var (
	ourMCP, ourLocal     = arm{kind: everturn, lane: laneMCP}, arm{kind: everturn, lane: laneLocal}
	cookMCP, cookLocal   = arm{kind: cookbk, lane: laneMCP}, arm{kind: cookbk, lane: laneLocal}
	floorMCP, floorLocal = arm{kind: floorish, lane: laneMCP}, arm{kind: floorish, lane: laneLocal}

	all     = []arm{ourMCP, cookMCP, floorMCP, ourLocal, cookLocal, floorLocal}
	loaded  = []arm{ourMCP, cookMCP, ourLocal, cookLocal}
	noTools = []arm{ourLocal, cookLocal, floorLocal}
	extra   = []arm{{kind: everturn, lane: laneMCPQuick}, {kind: everturn, lane: laneMCP, full: true}, {kind: everturn, lane: laneLocal, full: true}}
)

// resultBytes is the usual size of a tool's result: a page of text.
const resultBytes = 1000

func scenarios() []scenario {
	hops := func(n, calls int) spec { return spec{Hops: n, Calls: calls, Bytes: resultBytes} }
	return []scenario{
		{name: "answer", spec: hops(0, 1), arms: noTools, turns: 150, block: 15, inFlight: 1, smoke: true},
		{name: "one hop", spec: hops(1, 1), arms: all, turns: 150, block: 10, inFlight: 1, smoke: true},
		{name: "five hops", spec: hops(5, 1), arms: slices.Concat(all, extra), turns: 120, block: 5, inFlight: 1, smoke: true},
		{name: "six parallel calls", spec: hops(1, 6), arms: all, turns: 60, block: 5, inFlight: 1, smoke: true},
		{name: "one hop, 32 in flight", spec: hops(1, 1), arms: loaded, turns: 640, block: 160, inFlight: 32},
		{name: "five hops, 32 in flight", spec: hops(5, 1), arms: loaded, turns: 256, block: 64, inFlight: 32},
	}
}
