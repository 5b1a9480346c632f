package tests

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/engine"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestElevenMessagesAtOnce sends one more message at once than the ten concurrent updates that the server accepts for a
// run.
func TestElevenMessagesAtOnce(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	r := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		if q.Chat.Asked() == "First." {
			return fakellm.Call("local_echo", `{"text":"a"}`).Hold(1, gate)
		}
		return fakellm.Text("To all.")
	}))
	r.work(withEcho()...)
	begun := r.say(session(t), workflows.Message{ID: "m0", Text: "First."})
	r.reach(gate)
	var all sync.WaitGroup
	for i := range 11 {
		all.Go(func() {
			a, err := r.people().Send(t.Context(), client.SendInput{Session: session(t),
				Message: workflows.Message{ID: fmt.Sprintf("m%d", i+1), Text: fmt.Sprintf("And %d.", i+1)}})
			assert.NoError(t, err)
			assert.True(t, a.Merged)
		})
	}
	all.Wait()
	gate.Release()
	assert.Equal(t, "To all.", r.ended(begun.ID).Answer)
	messages := paired(t, r, session(t))
	taken := map[string]int{}
	for _, m := range messages {
		if m.Role == turn.RoleUser {
			taken[m.ID]++
		}
	}
	assert.Len(t, taken, 12)
	for id, n := range taken {
		assert.Equal(t, 1, n, id)
		rec, err := r.store.Delivered(t.Context(), session(t), id)
		require.NoError(t, err)
		assert.Equal(t, begun.ID, rec.ID)
	}
	assert.Len(t, r.model.Requests(), 2)
}

// bytesRead returns how many bytes this process has read from files and sockets, including the kernel's caches, so that
// it includes a query that scans a whole table of the journal.
func bytesRead(t *testing.T) float64 {
	b, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "rchar: "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(t, err)
			return n
		}
	}
	require.Fail(t, "the kernel does not say what was read")
	return 0
}

// TestASessionOfTenThousandTurns is not parallel, because it measures what this process allocates and reads.
func TestASessionOfTenThousandTurns(t *testing.T) {
	r := newEnv(t, fakellm.Cases(fakellm.When("",
		fakellm.Steps(fakellm.Call("local_echo", `{"text":"a"}`), fakellm.Text("Here.")))))
	m := &meter{}
	r.seed("ten", 10, 80)
	r.seed("hundred", 100, 80)
	r.seed("ten thousand", 10_000, 80)
	r.work(append(withEcho(), engine.WithJournal(m.wrap))...)
	costs := map[string]cost{}
	for _, name := range []string{"ten", "hundred", "ten thousand"} {
		costs[name] = r.turnCost(m, name)
	}
	costs["ten thousand"].atMost(t, costs["hundred"], 1.3)
	costs["ten thousand"].atMost(t, costs["ten"], 4) // the window of a session of ten turns is not full
}

// turnCost returns the average cost of a turn of a session. The first two turns fill caches and do not count.
func (r *env) turnCost(m *meter, session string) cost {
	r.t.Helper()
	const turns = 10
	for range 2 {
		r.ask(session, "Again.")
	}
	before, events := m.cost(), 0
	before[filesRead] = bytesRead(r.t)
	var runs []string
	for range turns {
		run := r.begin(session, "Again.", nil)
		r.result(run)
		runs = append(runs, run.GetRunID())
	}
	after := m.cost()
	after[filesRead] = bytesRead(r.t)
	for _, run := range runs {
		events += len(r.events(session, run))
	}
	after[eventCount] = float64(events)
	return after.since(before, turns)
}
