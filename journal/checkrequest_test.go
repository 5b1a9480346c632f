package journal_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// TestReplyToURL: where a person was sent elsewhere, the answer says only that it was done.
func TestReplyToURL(t *testing.T) {
	w := turn.Wait{ID: "e1.0.1", Kind: turn.WaitElicitation, Call: "1.0", Inquiry: &turn.Inquiry{Key: "k", URL: "https://example.com/pay"}}
	r := turn.Ruling{ID: w.ID, Verdict: turn.VerdictAnswered, Reply: &turn.Reply{Action: turn.ReplyAccept, Content: json.RawMessage("card 4111")}}
	kept, err := journal.CheckRuling(w, r)
	require.NoError(t, err)
	assert.Equal(t, &turn.Reply{Key: "k", Action: turn.ReplyAccept}, kept.Reply)
}

// TestReplyIsAnElicitations: what is said to other waits is said in other ways.
func TestReplyIsAnElicitations(t *testing.T) {
	reply := &turn.Reply{Action: turn.ReplyAccept, Content: json.RawMessage(`{}`)}
	kept, err := journal.CheckRuling(turn.Wait{ID: "q1", Kind: turn.WaitQuestion}, turn.Ruling{ID: "q1", Verdict: turn.VerdictAnswered, Reply: reply})
	require.NoError(t, err)
	assert.Nil(t, kept.Reply)
	_, err = journal.CheckRuling(turn.Wait{ID: "e", Kind: turn.WaitElicitation}, turn.Ruling{ID: "e", Verdict: turn.VerdictAnswered})
	assert.ErrorContains(t, err, "there is none")
}
