package servers

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/sessions"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

// The server is of an older protocol: it holds its call while a person is asked, which it may with hold_questions only.
func TestEverythingAsksAPerson(t *testing.T) {
	t.Parallel()
	server := stdioServer(t, "everything", everything, "stdio")
	server.HoldQuestions, server.Allow = within, []string{"trigger-*elicitation*"}
	r := newRig(t, server)
	accepted := r.turnWith(func(ctx context.Context, session string) {
		w := r.asked(ctx, session)
		assert.Equal(t, turn.WaitElicitation, w.Kind)
		require.NotNil(t, w.Inquiry)
		assert.Contains(t, string(w.Inquiry.Schema), "Your full, legal name")
		r.answer(ctx, session, w, turn.ReplyAccept, `{"name":"Ottoline","check":true,"integer":7}`)
	}, ask("trigger-elicitation-request", ""))
	assert.Contains(t, accepted[0], "Name: Ottoline")
	assert.Contains(t, accepted[0], "Favorite Integer: 7")

	declined := r.turnWith(func(ctx context.Context, session string) {
		w := r.asked(ctx, session)
		require.NotNil(t, w.Inquiry)
		assert.Equal(t, "https://example.org/consent", w.Inquiry.URL)
		r.answer(ctx, session, w, turn.ReplyDecline, "")
	}, ask("trigger-url-elicitation", `{"url":"https://example.org/consent"}`))
	assert.Contains(t, declined[0], "decline")
	r.offersOnlyWhatWasCalled()
}

// asked waits until the session's turn has a question for people, and returns it.
func (r *rig) asked(ctx context.Context, session string) journal.WaitRecord {
	r.t.Helper()
	var open []journal.WaitRecord
	require.Eventually(r.t, func() bool {
		var err error
		open, err = r.store.Waiting(ctx, session, 2)
		require.NoError(r.t, err)
		return len(open) > 0
	}, within, 10*time.Millisecond, "nobody is asked anything")
	require.Len(r.t, open, 1)
	return open[0]
}

// answer says what a person says to a server's question.
func (r *rig) answer(ctx context.Context, session string, w journal.WaitRecord, action turn.ReplyAction, content string) {
	r.t.Helper()
	c := sessions.New(r.client, sessions.Options{TaskQueue: r.cfg.Temporal.TaskQueue})
	reply := &turn.Reply{Action: action, Content: json.RawMessage(content)}
	_, err := c.Answer(ctx, session, workflows.Answer{Question: w.ID, By: "ottoline", Reply: reply})
	require.NoError(r.t, err)
}
