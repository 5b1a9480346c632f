package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
)

// lane is the way a turn's tool calls run.
type lane string

const (
	laneMCP      lane = "mcp"       // an MCP server over stdio, as regular activities
	laneMCPQuick lane = "mcp quick" // the same server, configured as quick and repeatable: local activities
	laneLocal    lane = "local"     // the worker's own file tool, a quick one: local activities
)

// wire returns the tool's name as models see it.
func (l lane) wire() string {
	return map[lane]string{laneMCP: "mcp_bench_big", laneMCPQuick: "mcp_quick_big", laneLocal: "local_read_file"}[l]
}

// spec says what a turn does. The user's message carries it to the scripted provider.
type spec struct {
	Hops  int    `json:"hops"`
	Calls int    `json:"calls"` // per hop, in parallel
	Tool  string `json:"tool"`
	// Bytes is the size of a tool's result.
	Bytes int  `json:"bytes"`
	Bad   bool `json:"bad,omitempty"` // the first answer is not a valid action
	// Slow streams the answer word by word, 10 ms apart, after a delay of 100 ms.
	Slow bool `json:"slow,omitempty"`
}

const (
	question = "Please look into this and tell me what you find: "
	answer   = "This is what I found in the pages that I was asked to read: each of them holds the line that it should " +
		"hold, " +
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

// provide is the provider's script: it follows the spec in the user's message.
func provide(r fakellm.Request) fakellm.Reply {
	if strings.HasPrefix(r.Chat.Messages[0].Content, "You summarize") {
		return fakellm.Text(answer).Usage(60_000, 60, 0)
	}
	_, text, _ := strings.Cut(r.Chat.Asked(), question)
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fakellm.Status(400, "bad_spec", "the user's message holds no specification: "+err.Error())
	}
	step := r.Step
	if s.Bad {
		if step == 0 {
			return fakellm.Call("no_such_tool", `{}`).Usage(900, 20, 0)
		}
		step--
	}
	if step >= s.Hops {
		final := fakellm.Text(strings.Repeat(answer, 2)).Usage(1000+300*step, 60, 0)
		if s.Slow {
			final = final.FirstDelay(100 * time.Millisecond).Delay(10 * time.Millisecond)
		}
		return final
	}
	calls := make([]fakellm.ToolCall, s.Calls)
	for i := range calls {
		calls[i] = fakellm.ToolCall{Name: s.Tool, Arguments: s.arguments(step, i)}
	}
	return fakellm.Calls(calls...).Usage(1000+300*step, 30, 0)
}

func (s spec) arguments(step, i int) string {
	if s.Tool == laneLocal.wire() {
		return fmt.Sprintf(`{"path":%q}`, page(s.Bytes, (step+i)%pages))
	}
	return fmt.Sprintf(`{"bytes":%d}`, s.Bytes-(step+i)%pages) // a turn ends when its calls repeat
}

// kind is the implementation that runs a turn.
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
	// unsynced makes the journal as durable as the development server's own database, which the baselines rely on: it
	// does not wait for the disk at each commit, as it does by default.
	unsynced bool
	// postgres keeps the journal in Postgres, which waits for the disk at each commit, instead of SQLite.
	postgres bool
	// workers is the number of processes that share the task queue and the journal; 0 means 1.
	workers int
	// tuned gives the cookbook the setting that Everturn's worker uses on loopback: no compression.
	tuned bool
	// compacted gives the model a known context window, so that prompts are compacted before they exceed it.
	compaction bool
}

func (a arm) String() string {
	name := string(a.kind) + " " + string(a.lane)
	if a.unsynced {
		name += " unsynced"
	}
	if a.postgres {
		name += " postgres"
	}
	if a.workers > 1 {
		name += fmt.Sprintf(" %d workers", a.workers)
	}
	if a.tuned {
		name += " tuned"
	}
	if a.compaction {
		name += " compacted"
	}
	return name
}

// synchronous returns the journal's setting of that name.
func (a arm) synchronous() config.Synchronous {
	if a.unsynced {
		return config.SynchronousNormal
	}
	return config.SynchronousFull
}
