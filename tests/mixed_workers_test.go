package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// mixedWorkers returns a harness whose workers may or may not have the file tools that write. The model writes a file
// if it can, after the gate is open.
func mixedWorkers(t *testing.T, gate *fakellm.Gate) (e *env, work func(write bool) (stop func())) {
	e = newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		reply := fakellm.Text("read only")
		switch {
		case q.Chat.Last("tool").Content != "":
			reply = fakellm.Text("written")
		case slices.Contains(q.Chat.ToolNames(), "local_write_file"):
			reply = fakellm.Call("local_write_file", fmt.Sprintf(`{"path":%q,"content":"x"}`, q.Chat.Asked()))
		}
		if gate != nil && q.Step == 0 {
			reply = reply.Hold(0, gate)
		}
		return reply
	}), func(c *config.Config) { c.Policy.AskRisk = turn.RiskNever })
	return e, func(write bool) func() {
		e.cfg.LocalFiles.Write = write
		return e.work()
	}
}

// writeFiles runs n turns in new sessions and returns their answers. Each one that says that it has written a file has.
func (e *env) writeFiles(name string, n int) (answers map[string]int) {
	e.t.Helper()
	answers = map[string]int{}
	for i := range n {
		file := fmt.Sprintf("%s-%d", name, i)
		res := e.ask(session(e.t)+" "+file, file)
		answers[res.Answer]++
		_, err := os.Stat(filepath.Join(e.cfg.Runtime.Workspace, file))
		assert.Equal(e.t, res.Answer == "written", err == nil, "%s: %v", file, err)
		if res.Answer == "written" {
			assert.Equal(e.t, turn.OutcomeOK, e.calls(res.Turn, 1)[0].Outcome)
		}
	}
	return answers
}

// TestWorkersWithDifferentTools checks that a turn has the tools of the worker that began it, that its calls run on
// workers that have them, and that no worker's tools change when another one starts or stops.
func TestWorkersWithDifferentTools(t *testing.T) {
	for name, first := range map[string]bool{"writer first": true, "reader first": false} {
		t.Run(name, func(t *testing.T) {
			e, work := mixedWorkers(t, nil)
			stopFirst := work(first)
			stopSecond := work(!first)
			both := e.writeFiles("both", 16)
			assert.Len(t, both, 2, "each worker offers its own tools: %v", both)
			stopSecond()
			answer := map[bool]string{true: "written", false: "read only"}
			assert.Equal(t, map[string]int{answer[first]: 4}, e.writeFiles("first", 4))
			stopFirst()
			work(!first)
			assert.Equal(t, map[string]int{answer[!first]: 4}, e.writeFiles("second", 4))
		})
	}
}

// TestACallWaitsForAWorkerWithItsTool stops the only worker with a tool before the call, and starts it again.
func TestACallWaitsForAWorkerWithItsTool(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]bool{"comes back": true, "stays away": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := fakellm.NewGate()
			e, work := mixedWorkers(t, gate)
			stop := work(true)
			run := e.start(session(t), workflows.Input{Message: &workflows.Message{Text: "file"},
				Limits: limited("5m", map[bool]string{true: "2m", false: "2s"}[comes])})
			e.reach(gate)
			work(false)
			stop()
			gate.Release()
			if comes {
				e.waiting(run)
				work(true)
			}
			assert.Equal(t, "written", e.result(run).Answer, "the model has got a result")
			call := e.calls(run.GetRunID(), 1)[0]
			want := map[bool]turn.Outcome{true: turn.OutcomeOK, false: turn.OutcomeError}[comes]
			require.Equal(t, want, call.Outcome, call.Text)
		})
	}
}

// TestCLITellsWhichWorkersOfferATool checks that doctor warns of workers of a task queue that offer different tools,
// and that the list of tools has those of all of them.
func TestCLITellsWhichWorkersOfferATool(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n")
	h.worker()
	offered := func() map[int]int { // the number of local tools, by that of the workers that offer them
		counts := map[int]int{}
		for _, c := range decoded[[]struct {
			Server  string
			Tools   []turn.Descriptor
			Workers []string
		}](h.everturn("tools", "-o", "json").exits(0)) {
			if c.Server == "local" {
				counts[len(c.Tools)] = len(c.Workers)
			}
		}
		return counts
	}
	assert.Contains(t, h.everturn("doctor").exits(0).out.String(), "ok    tools")
	require.Len(t, offered(), 1)
	h.worker("--set", "local_files.write=true")
	require.Eventually(t, func() bool {
		return strings.Contains(h.everturn("doctor").exits(0).out.String(), "warn  tools")
	}, within, 100*time.Millisecond)
	both := offered()
	require.Len(t, both, 2)
	for tools, workers := range both {
		assert.Equal(t, 1, workers, "%d tools", tools)
	}
}
