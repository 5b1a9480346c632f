package sessions_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/sessions"
	"github.com/everturn/everturn/workflows"
	"github.com/everturn/everturn/workflows/turn"
)

func TestRepliesThatNoTurnWouldTakeAreNotSent(t *testing.T) {
	c := sessions.New(nil, sessions.Options{}) // nothing is sent
	for _, wrong := range []struct {
		answer workflows.Answer
		says   string
	}{
		{workflows.Answer{Text: "x", Reply: &turn.Reply{Action: turn.ReplyAccept}}, "not both"},
		{workflows.Answer{Reply: &turn.Reply{}}, `accept, decline or cancel, not ""`},
		{workflows.Answer{Reply: &turn.Reply{Action: turn.ReplyAccept, Content: json.RawMessage(`[1]`)}}, "JSON object"},
		{workflows.Answer{Reply: &turn.Reply{Action: turn.ReplyAccept, Content: json.RawMessage(`{"a"`)}}, "JSON object"},
		{workflows.Answer{Reply: &turn.Reply{Action: turn.ReplyDecline, Content: json.RawMessage(`{}`)}}, "has no content"},
		{workflows.Answer{Reply: &turn.Reply{Action: turn.ReplyAccept, Content: json.RawMessage(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`)}}, "say less"},
	} {
		_, err := c.Answer(t.Context(), "s", wrong.answer)
		assert.Equal(t, turn.CodeConfigInvalid, turn.CodeOf(err))
		assert.ErrorContains(t, err, wrong.says)
	}
}
