package chat

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// TestAStoppedTurnGivesWaitingMessagesBack: the transcript of a cancelled turn keeps the messages that it would have
// merged, and no model answers them.
func TestAStoppedTurnGivesWaitingMessagesBack(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Tell a story.")
	attempt := s.infer(nil)
	s.stream(attempt, "Once upon")
	s.shows("Once upon")
	s.says("first")
	s.says("second")
	s.shows("second · accepted, read after this answer")
	var waiting []turn.UserMessage
	for _, m := range s.messages {
		waiting = append(waiting, m.Message)
	}
	_, err := s.journal.Finish(t.Context(), turn.FinishInput{Session: "s", Turn: "turn-1", Messages: waiting,
		Result:   turn.Result{State: turn.StateCancelled, Reason: turn.FinishCancelled},
		Counters: turn.Counters{Step: s.step}, At: s.story.now()})
	require.NoError(t, err)
	s.shows("ready")
	assert.Contains(t, s.all(), "before the model answered your last 2 messages")
	assert.Equal(t, "first\n\nsecond", s.input.Value())
	s.press(enter)
	s.until("it is sent", func() bool { return len(s.messages) == 3 })
	assert.NotContains(t, []string{s.messages[0].Message.ID, s.messages[1].Message.ID}, s.messages[2].Message.ID,
		"the journal has these IDs, and would ignore the message")
}

func TestANoteIsTheFirstLineOfTheChat(t *testing.T) {
	m := NewModel(t.Context(), Options{Note: "1 file of yours: a\x1b.go"})
	m.width, m.height = 80, 24
	assert.Contains(t, m.conversation()[0], "1 file of yours: a.go")
}

func TestAStoppedTurnKeepsWhatTheModelHasRead(t *testing.T) {
	s := newStage(t, 80, 24)
	s.begin("m1", "Tell a story.")
	attempt := s.infer(nil)
	s.says("shorter")
	s.until("it is sent", func() bool { return len(s.messages) == 1 })
	s.settle(attempt, "Once.")
	s.stream(s.infer(nil, s.messages[0].Message), "Twice.")
	s.shows("Twice.")
	s.finish(turn.StateCancelled, turn.FinishCancelled, "")
	s.shows("ready")
	assert.Empty(t, s.input.Value())
}
