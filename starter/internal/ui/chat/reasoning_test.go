package chat

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

func TestReasoningIsFolded(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Count.")
	attempt := s.infer(nil)
	think := func(text string) {
		require.NoError(t, s.journal.AppendEvents(t.Context(), s.story.key(), attempt,
			[]turn.Event{{Kind: turn.EventReasoningDelta, Text: text, At: s.story.now()}}))
	}
	think("One\x1b[2J and ")
	s.shows("thought · 2 words")
	think("one.")
	s.shows("thought · 3 words")
	assert.NotContains(t, s.all(), "One")
	s.stream(attempt, "Two.")
	s.shows("Two.")
	s.press(ctrlO)
	s.shows("│ One[2J and one.")
	s.press(ctrlO)
	assert.NotContains(t, s.all(), "One")
	s.settle(attempt, "Two.")
	s.finish(turn.StateCompleted, turn.FinishAnswered, "")
	s.prints("1 step")
}

func TestTheMenuSaysThatThereIsMore(t *testing.T) {
	s := newStage(t, 80, 24)
	s.types("/")
	assert.Contains(t, s.bottom(), "1 of 15")
	assert.NotContains(t, s.bottom(), "/undo")
	for range 14 {
		s.press(down)
	}
	assert.Contains(t, s.bottom(), "> /undo")
	assert.Contains(t, s.bottom(), "15 of 15")
}

func TestTheEffortOfLaterTurnsIsChanged(t *testing.T) {
	s := newStage(t, 80, 24)
	s.says("/effort")
	assert.Contains(t, s.bottom(), "> default")
	assert.Contains(t, s.bottom(), "  xhigh")
	s.types("high")
	s.press(enter, enter)
	s.prints("new turns use the effort high")
	assert.Equal(t, turn.EffortHigh, s.o.Chosen.Effort)
	assert.Contains(t, s.bottom(), "(high)")
	s.says("/effort extreme")
	s.prints("no level extreme")
	assert.Equal(t, turn.EffortHigh, s.o.Chosen.Effort)
	s.says("/effort default")
	s.prints("the agent's effort")
	assert.Empty(t, s.o.Chosen.Effort)
}
