package journal

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// TestReplyToURL checks that a response to a URL elicitation keeps only its action, not its content.
func TestReplyToURL(t *testing.T) {
	req := turn.Request{ID: "e1.0.1", Kind: turn.RequestElicitation, Call: "1.0",
		Elicitation: &turn.Elicitation{Key: "k", URL: "https://example.com/pay"}}
	r := turn.Decision{ID: req.ID, Status: turn.StatusAnswered,
		Response: &turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: json.RawMessage("card 4111")}}
	kept, err := checkDecision(req, r)
	require.NoError(t, err)
	assert.Equal(t, &turn.ElicitationResponse{Key: "k", Action: turn.ElicitationAccept}, kept.Response)
}

// TestReplyIsAnElicitations checks that only an elicitation takes a response. Requests of other kinds take other
// decisions.
func TestReplyIsAnElicitations(t *testing.T) {
	response := &turn.ElicitationResponse{Action: turn.ElicitationAccept, Content: json.RawMessage(`{}`)}
	_, err := checkDecision(turn.Request{ID: "q1", Kind: turn.RequestQuestion},
		turn.Decision{ID: "q1", Status: turn.StatusAnswered, Response: response})
	require.Error(t, err)
	_, err = checkDecision(turn.Request{ID: "e", Kind: turn.RequestElicitation},
		turn.Decision{ID: "e", Status: turn.StatusAnswered})
	assert.Error(t, err)
}
