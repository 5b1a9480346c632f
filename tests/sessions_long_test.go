package tests

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/client"
	"github.com/everturn/everturn/tests/fakellm"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// TestElevenMessagesAtOnce sends one more message at once than the ten concurrent updates that the server accepts for a
// run.
func TestElevenMessagesAtOnce(t *testing.T) {
	t.Parallel()
	gate := fakellm.NewGate()
	e := newEnv(t, fakellm.Func(func(q fakellm.Request) fakellm.Reply {
		if q.Chat.Asked() == "First." {
			return fakellm.Call("local_echo", `{"text":"a"}`).Hold(1, gate)
		}
		return fakellm.Text("To all.")
	}))
	e.work(withEcho()...)
	begun := e.say(session(t), workflows.Message{ID: "m0", Text: "First."})
	e.reach(gate)
	var all sync.WaitGroup
	for i := range 11 {
		all.Go(func() {
			a, err := e.people().Send(t.Context(), client.SendInput{Session: session(t),
				Message: workflows.Message{ID: fmt.Sprintf("m%d", i+1), Text: fmt.Sprintf("And %d.", i+1)}})
			assert.NoError(t, err)
			assert.True(t, a.Merged)
		})
	}
	all.Wait()
	gate.Release()
	assert.Equal(t, "To all.", e.ended(begun.ID).Answer)
	messages := paired(t, e, session(t))
	taken := map[string]int{}
	for _, m := range messages {
		if m.Role == turn.RoleUser {
			taken[m.ID]++
		}
	}
	assert.Len(t, taken, 12)
	for id, n := range taken {
		assert.Equal(t, 1, n, id)
		rec, err := e.journal.Delivered(t.Context(), session(t), id)
		require.NoError(t, err)
		assert.Equal(t, begun.ID, rec.ID)
	}
	assert.Len(t, e.model.Requests(), 2)
}
