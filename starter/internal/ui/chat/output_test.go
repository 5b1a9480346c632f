package chat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

func TestTheOutputOfARunningCommandIsShown(t *testing.T) {
	s := newStage(t, 80, 24)
	s.hears(turn.EventToolCallStarted, turn.CallEvent{CallID: "1.0", Tool: "local/shell", Arguments: `{"command":"make"}`})
	part := func(text string, offset int64) {
		s.hears(turn.EventToolProgress, turn.ProgressEvent{CallID: "1.0", Tool: "local/shell", ToolProgress: turn.NewOutput(text, offset)})
	}
	part("first\n"+strings.Repeat("line\n", 10), 0)
	part("the\x1b[2J last", 56)
	assert.Contains(t, s.all(), "│ line")
	assert.Contains(t, s.all(), "│ the[2J last")
	assert.NotContains(t, s.all(), "first")
	s.hears(turn.EventToolCallCompleted, turn.CallEvent{CallID: "1.0", Tool: "local/shell", Outcome: turn.OutcomeError, Preview: "[exit code 2]\n" + strings.Repeat("line\n", 5) + "a\nb\nc\n"})
	assert.NotContains(t, s.all(), "│ line")
	assert.Contains(t, s.all(), "✗ $ make · exit 2")
	assert.Equal(t, []string{"│ … 5 more lines", "│ a", "│ b", "│ c"}, s.talkLines()[len(s.talkLines())-4:])
}
