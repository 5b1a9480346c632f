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

// mixedWorkers returns a rig whose workers may or may not have the file tools that write. The model writes a file if it
// can, after the gate is open.
func mixedWorkers(t *testing.T, gate *fakellm.Gate) (r *env, work func(write bool) (stop func())) {
	r = newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
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
	}), func(c *config.Config) { c.Policy.AskRisk = config.AskNever })
	return r, func(write bool) func() {
		r.cfg.LocalFiles.Write = write
		return r.work()
	}
}

// writeFiles runs n turns in new sessions and returns their answers. Each one that says that it has written a file has.
func (r *env) writeFiles(name string, n int) (answers map[string]int) {
	r.t.Helper()
	answers = map[string]int{}
	for i := range n {
		file := fmt.Sprintf("%s-%d", name, i)
		res := r.ask(session(r.t)+" "+file, file)
		answers[res.Answer]++
		_, err := os.Stat(filepath.Join(r.cfg.Runtime.Workspace, file))
		assert.Equal(r.t, res.Answer == "written", err == nil, "%s: %v", file, err)
		if res.Answer == "written" {
			assert.Equal(r.t, turn.OutcomeOK, r.calls(res.Turn, 1)[0].Outcome)
		}
	}
	return answers
}

// TestWorkersWithDifferentTools checks that a turn has the tools of the worker that began it, that its calls run on
// workers that have them, and that no worker's tools change when another one starts or stops.
func TestWorkersWithDifferentTools(t *testing.T) {
	for name, first := range map[string]bool{"writer first": true, "reader first": false} {
		t.Run(name, func(t *testing.T) {
			r, work := mixedWorkers(t, nil)
			stopFirst := work(first)
			stopSecond := work(!first)
			both := r.writeFiles("both", 16)
			assert.Len(t, both, 2, "each worker offers its own tools: %v", both)
			stopSecond()
			answer := map[bool]string{true: "written", false: "read only"}
			assert.Equal(t, map[string]int{answer[first]: 4}, r.writeFiles("first", 4))
			stopFirst()
			work(!first)
			assert.Equal(t, map[string]int{answer[!first]: 4}, r.writeFiles("second", 4))
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
			r, work := mixedWorkers(t, gate)
			stop := work(true)
			run := r.start(session(t), workflows.Input{Message: &workflows.Message{Text: "file"},
				Limits: limited("5m", map[bool]string{true: "2m", false: "2s"}[comes])})
			r.reach(gate)
			work(false)
			stop()
			gate.Release()
			if comes {
				r.parked(run)
				work(true)
			}
			assert.Equal(t, "written", r.result(run).Answer, "the model has got a result")
			call := r.calls(run.GetRunID(), 1)[0]
			want := map[bool]turn.Outcome{true: turn.OutcomeOK, false: turn.OutcomeError}[comes]
			require.Equal(t, want, call.Outcome, call.Text)
		})
	}
}

// TestCLITellsWhichWorkersOfferATool checks that doctor warns of workers of a task queue that offer different tools, and
// that the list of tools has those of all of them.
func TestCLITellsWhichWorkersOfferATool(t *testing.T) {
	t.Parallel()
	h := newHome(t, "[llm]\nprovider = \"demo\"\n")
	h.worker()
	offered := func() map[int]int { // the number of local tools, by that of the workers that offer them
		counts := map[int]int{}
		for _, c := range decoded[[]struct {
			Server  string
			Tools   []turn.Descriptor
			Workers []string
		}](h.starter("tools", "-o", "json").exits(0)) {
			if c.Server == "local" {
				counts[len(c.Tools)] = len(c.Workers)
			}
		}
		return counts
	}
	assert.Contains(t, h.starter("doctor").exits(0).out.String(), "ok    tools")
	require.Len(t, offered(), 1)
	h.worker("--set", "local_files.write=true")
	require.Eventually(t, func() bool {
		return strings.Contains(h.starter("doctor").exits(0).out.String(), "warn  tools")
	}, within, 100*time.Millisecond)
	both := offered()
	require.Len(t, both, 2)
	for tools, workers := range both {
		assert.Equal(t, 1, workers, "%d tools", tools)
	}
}
