package attempt

import (
	"context"
	"encoding/json"
	"time"

	"github.com/everturn/everturn/journal"
	"github.com/everturn/everturn/workflows/turn"
)

// EventOf returns an event of this kind. data must marshal to JSON.
func EventOf(kind turn.EventKind, text string, data any) turn.Event {
	raw, _ := json.Marshal(data)
	return turn.Event{Kind: kind, Text: text, Data: raw, At: time.Now()}
}

// MaxFailureText bounds the text of an error event, in bytes.
const MaxFailureText = 1000

// ShowFailure appends an error event to the turn's stream. A failed append is only logged, because the turn does not
// depend on its stream. attempt is the attempt of the inference key, or 0 if the step is settled already.
func (a *Attempts) ShowFailure(
	ctx context.Context, key journal.StepKey, attempt int, message string, data turn.ErrorEvent,
) {
	event := EventOf(turn.EventError, turn.Truncate(message, MaxFailureText), data)
	if err := a.journal.AppendEvents(ctx, key, attempt, []turn.Event{event}); err != nil {
		LogFailure(ctx, AsTurnError(err))
	}
}
