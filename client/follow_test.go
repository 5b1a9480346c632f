package client

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

func TestTruncatedAnswersAreCompleted(t *testing.T) {
	long := strings.Repeat("long ", 1000)
	preview := turn.Truncate(long, 4096)
	for name, c := range map[string]struct {
		preview, text, want string
		truncated           bool
	}{
		"short":                             {"short", "short and long", "short", false},
		"truncated":                         {preview, long, long, false},
		"truncated, of an unknown text":     {preview, "other", preview, true},
		"truncated, without a text":         {preview, "", preview, true},
		"the model's own ellipsis":          {"to be continued…", "to be continued…", "to be continued…", false},
		"the model's own, without the text": {"to be continued…", "", "to be continued…", false},
		"empty":                             {"", "x", "", false},
	} {
		answer, truncated := completeAnswer(c.preview, c.text)
		assert.Equal(t, c.want, answer, name)
		assert.Equal(t, c.truncated, truncated, name)
	}
}

func TestAMergedMessageIsFollowedFromItsOwnEventOn(t *testing.T) {
	text := func(index int64) turn.Event { return turn.Event{Kind: turn.EventTextDelta, Index: index} }
	joined := func(id string) turn.Event {
		return turn.Event{Kind: turn.EventMessageAdded, Data: []byte(`{"message_id":"` + id + `","text":""}`)}
	}
	f := follower{message: "m2"}
	var seen []bool
	for _, e := range []turn.Event{text(1), joined("m1"), joined("m2"), text(2), joined("m3")} {
		seen = append(seen, f.passesMessage(e))
	}
	assert.Equal(t, []bool{false, false, true, true, true}, seen)
	lost := follower{message: "m2"}
	assert.True(t, lost.passesMessage(turn.Event{Kind: turn.EventTurnCompleted}), "the end is always yielded")
	var own follower
	assert.True(t, own.passesMessage(text(1)))
}
